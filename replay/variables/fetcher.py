"""VariablesFetcher: copies versions from the server to a machine's memory."""

import functools
import time
from collections.abc import Callable
from typing import Any

from slipway.replay.variables import poll_schedule, shared_variables

_TIMEOUT_MS = 50  # that a poll waits for the server


class VariablesFetcher:
  """Fetches each version once, on a machine whose trainer is elsewhere.

  Attributes:
    version: version that is in shared memory; 0 before the first.
    published_at_s: unix time in seconds at which it was published, or None.
    fetched: number of versions that were copied to shared memory.
    waiting_since_s: unix time in seconds since which the server has not
      replied; None while it replies.
  """

  def __init__(
    self,
    path: str,
    address: str,
    waits_for: Callable[[], str | None],
    poll_period_s: float = 0.05,
  ):
    """Stores the arguments; opens no connection.

    Args:
      path: path of the file that workers read; see `shared_variables`.
      address: address of the machine's proxy, as Reverb's client supports no
        TLS, no changing address and no passed socket.
      waits_for: describes the server if it is unreachable, or returns None.
      poll_period_s: shortest time in seconds between two polls.
    """
    self._source = address, waits_for
    self._writer = shared_variables.SharedVariablesWriter(path)
    self._polls = poll_schedule.PollSchedule(poll_period_s)
    self.version = self.fetched = 0
    self.published_at_s: float | None = None
    self.waiting_since_s: float | None = None

  def poll(self) -> float:
    """Copies the newest version, if it has changed; waits up to 50 ms.

    The first call takes seconds, as it imports TensorFlow for Reverb's client.

    Returns:
      Seconds until the next call is due; see `poll_schedule`.

    Raises:
      ValueError: the server has no table of variables.
      OSError: the memory is full.
    """
    try:
      packed = self._client.poll(_TIMEOUT_MS)
    except (TimeoutError, ConnectionError):
      # The server restarts, or does not run yet.
      self.waiting_since_s = self.waiting_since_s or time.time()
      return self._polls.period_s
    self.waiting_since_s = None
    if packed is not None:
      self._polls.record_version()
      self._writer.write(*packed)
      self.version, self.published_at_s = packed.version, packed.published_at_s
      self.fetched += 1
    return self._polls.period_s

  def close(self) -> None:
    """Deletes the variables file."""
    self._writer.close()

  @functools.cached_property
  def _client(self) -> Any:
    """The client, whose module imports TensorFlow."""
    from slipway.replay.variables import variables

    return variables.VariablesClient(*self._source)
