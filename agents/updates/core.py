"""Updates: the interface between a trainer and a source of batches."""

import typing
from collections.abc import Sequence

import numpy as np

from slipway.replay.tables import table_status


class LastUpdate(typing.NamedTuple):
  """Result of the last update of a call of `Updates.run`."""

  metrics: dict[str, float]  # metrics of the learner, by name
  # int64 [B, ...], versions of the variables that chose the batch's actions, or
  # None for recorded data.
  versions: np.ndarray | None


class Updates(typing.Protocol):
  """Runs a learner's updates on one source of batches."""

  def trace(self) -> None:
    """Traces the update, so that the first batch does not wait for it."""
    ...

  def run(self, updates: int) -> LastUpdate | None:
    """Runs up to `updates` updates, as long as batches are available.

    Returns:
      Result of the last update, or None if there was no batch or the source
      went down during the call. Updates before that are kept, and `run` may be
      called again.
    """
    ...

  def statuses(self) -> Sequence[table_status.TableStatus]:
    """Returns the counts of all tables that are up."""
    ...

  def close(self) -> None:
    """Closes all connections."""
    ...
