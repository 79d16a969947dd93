"""Updates: the port by which a trainer learns from a source of batches."""

import typing
from collections.abc import Sequence

import numpy as np

from slipway.replay.tables import table_status


class LastUpdate(typing.NamedTuple):
  """The result of the last update of a call."""

  metrics: dict[str, float]  # the learner's, by name
  # int64, of the variables that acted in its batch; None: it was recorded.
  versions: np.ndarray | None


class Updates(typing.Protocol):
  """Runs a learner's updates on one source of batches."""

  def run(self, updates: int) -> LastUpdate | None:
    """Runs at most `updates` updates, those that there are batches for.

    Returns:
      The last one. None: there was no batch, or the source was lost during the
      call; updates that were done before count, and `run` may be called again.
    """
    ...

  def statuses(self) -> Sequence[table_status.TableStatus]:
    """Returns the counts of the tables that are up; (): there is none."""
    ...

  def close(self) -> None:
    """Releases what is open."""
    ...
