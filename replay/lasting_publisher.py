"""A publisher of variables that outlives their server."""

from collections.abc import Mapping

import numpy as np

from replay import shard as shard_lib
from replay import variables as variables_lib

_TIMEOUT_MS = 2_000  # the trainer stands still meanwhile


class LastingPublisher:
  """Publishes to the shard that has the variables, while that is there.

  Attributes:
    owes: whether the last variables did not reach the shard, so that newer
      ones should be published as soon as it is there.
  """

  def __init__(self, shard: shard_lib.Shard, first_version: int):
    """Connects at the first version.

    Args:
      shard: that has the table of variables.
      first_version: of the first `publish`.
    """
    self._shard = shard
    self._version = first_version - 1
    self._publisher: variables_lib.VariablesPublisher | None = None
    self._life = 0  # of the shard, that the publisher is for
    self.owes = False

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Makes the variables the newest version, if the shard is there.

    Args:
      variables: arrays by name.

    Returns:
      The last version that was used; it may not have reached the shard.

    Raises:
      ValueError: an array's dtype cannot be sent.
    """
    self.owes = True
    if not self._shard.up:
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
      self.owes = False
    return self._version

  def close(self) -> None:
    """Ends the stream."""
    if self._publisher is not None:
      self._publisher.close()
    self._publisher = None

  def _current(self) -> variables_lib.VariablesPublisher:
    if self._publisher is None or self._life != self._shard.lives:
      self.close()
      self._life = self._shard.lives
      self._publisher = variables_lib.VariablesPublisher(
        self._shard.address, self._version + 1, _TIMEOUT_MS
      )
    return self._publisher
