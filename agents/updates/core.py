"""The interface through which a trainer runs updates on a source of batches."""

import typing
from collections.abc import Sequence

import numpy as np

from slipway.replay.tables import table_status


class LastUpdate(typing.NamedTuple):
  """Result of the last of the updates that one call of `Updates.run` ran.

  Attributes:
    metrics: the learner's metrics, by name.
    versions: int64 [B, ...], versions of the variables that chose the batch's
      actions, or None for recorded data.
  """

  metrics: dict[str, float]
  versions: np.ndarray | None


class Updates:
  """Runs a learner's updates on batches from one source, for the trainer."""

  def trace(self) -> None:
    """Traces the update's graph, so that the first `run` does not have to.

    Does nothing if the graph is traced already, or if that would save no time.
    """

  def run(self, updates: int) -> LastUpdate | None:
    """Runs up to `updates` updates, while batches are available.

    Returns:
      Result of the last update, or None if there was no batch.
    """
    raise NotImplementedError

  def statuses(self) -> Sequence[table_status.TableStatus]:
    """Returns the item counts of each table."""
    raise NotImplementedError

  def drop_rest(self) -> None:
    """Removes the oldest items of queues that are no whole number of batches.

    Does nothing if the source is no queue.
    """

  def close(self) -> None:
    """Closes all connections to the source, if there are any."""
