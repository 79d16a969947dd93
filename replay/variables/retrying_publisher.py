"""Retrying publisher: publishes variables to a server that may be down."""

from collections.abc import Mapping

import numpy as np

from slipway.replay.tables import shard_monitor
from slipway.replay.variables import variables as variables_lib

_TIMEOUT_MS = 2_000  # the trainer pauses meanwhile


class RetryingPublisher:
  """Publishes variables while their server is up, and skips while it is down.

  Attributes:
    pending: whether the last variables did not reach the server, so the caller
      should publish as soon as the server is up.
  """

  def __init__(self, server: shard_monitor.ShardMonitor, first_version: int):
    """Keeps the arguments; connects at the first `publish`.

    Args:
      server: monitor of the server that has the table of variables.
      first_version: number of the first `publish`.
    """
    self._server = server
    self._version = first_version - 1
    self._publisher: variables_lib.VariablesPublisher | None = None
    self._incarnation = 0  # of the server that the publisher is connected to
    self.pending = False

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Makes the variables the newest version, if the server is up.

    Args:
      variables: arrays by name.

    Returns:
      The last version number; it may not have reached the server.

    Raises:
      ValueError: an array's dtype cannot be sent.
    """
    self.pending = True
    if not self._server.up:
      self.close()
      return self._version
    publisher = self._current()
    self._version += 1
    try:
      publisher.publish(variables)
    except ConnectionError:
      # Its writer would send this version again, after newer ones.
      self.close()
    else:
      self.pending = False
    return self._version

  def close(self) -> None:
    """Closes the stream."""
    if self._publisher is not None:
      self._publisher.close()
    self._publisher = None

  def _current(self) -> variables_lib.VariablesPublisher:
    if self._publisher is None or self._incarnation != self._server.incarnation:
      self.close()
      self._incarnation = self._server.incarnation
      self._publisher = variables_lib.VariablesPublisher(
        self._server.address, self._version + 1, _TIMEOUT_MS
      )
    return self._publisher
