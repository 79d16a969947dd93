"""Updates: the port by which a trainer learns from a source of batches."""

import typing
from collections.abc import Sequence

import numpy as np

from slipway.replay.tables import table_status


class LastUpdate(typing.NamedTuple):
  """Result of the last update of a call."""

  metrics: dict[str, float]  # metrics of the learner, by name
  # int64, of the variables that chose the batch's actions; None: recorded data.
  versions: np.ndarray | None


class Updates(typing.Protocol):
  """Runs a learner's updates on one source of batches."""

  def run(self, updates: int) -> LastUpdate | None:
    """Runs updates on the batches that are available, at most `updates`.

    Returns:
      Result of the last update. None: there was no batch, or the source went
      down during the call. Updates before that count, and `run` may be called
      again.
    """
    ...

  def statuses(self) -> Sequence[table_status.TableStatus]:
    """Returns the counts of all tables that are up."""
    ...

  def close(self) -> None:
    """Closes all connections."""
    ...
