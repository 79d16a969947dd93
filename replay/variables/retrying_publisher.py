"""Retrying publisher: publishes variables, and skips a server that is down."""

from collections.abc import Mapping

import numpy as np

from slipway.replay.tables import shard_monitor
from slipway.replay.variables import variables as variables_lib

# Milliseconds that `RetryingPublisher.publish` waits for the server's reply, in
# which the trainer pauses.
_TIMEOUT_MS = 2_000


class RetryingPublisher:
  """Publisher of variables that reconnects after restarts of its server.

  While the server is down, `publish` does nothing, without an error.
  """

  def __init__(self, server: shard_monitor.ShardMonitor, first_version: int):
    """Stores the arguments; the first `publish` connects to the server."""
    self._server = server
    self._version = first_version - 1
    self._publisher: variables_lib.VariablesPublisher | None = None
    self._incarnation = 0  # of the server that the publisher is connected to
    # Incarnation of the server that has confirmed the newest version.
    self._confirmed_by: int | None = None

  @property
  def pending(self) -> bool:
    """Whether the newest version must be published again.

    It has not reached the server, or the server has restarted since. A
    restarted server has the version of its snapshot, or none.
    """
    server = self._server
    return self._confirmed_by is None or (
      server.up and self._confirmed_by != server.incarnation
    )

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Publishes the variables as a new version, if the server is up.

    Returns:
      The last version number that was used; if `pending` is set, that version
      may not have reached the server.

    Raises:
      ValueError: an array's dtype cannot be sent.
    """
    self._confirmed_by = None
    if not self._server.up:
      self.close()
      return self._version
    publisher = self._current_publisher()
    self._version += 1
    try:
      publisher.publish(variables)
    except ConnectionError:
      # Its writer would send this version again, after newer ones.
      self.close()
    else:
      self._confirmed_by = self._incarnation
    return self._version

  def close(self) -> None:
    """Closes the stream to the server; a later `publish` opens a new one."""
    if self._publisher is not None:
      self._publisher.close()
    self._publisher = None

  def _current_publisher(self) -> variables_lib.VariablesPublisher:
    """Returns the publisher, a new one after a restart of the server."""
    if self._publisher is None or self._incarnation != self._server.incarnation:
      self.close()
      self._incarnation = self._server.incarnation
      self._publisher = variables_lib.VariablesPublisher(
        self._server.address, self._version + 1, _TIMEOUT_MS
      )
    return self._publisher
