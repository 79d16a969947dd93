"""Local updates: runs updates on batches of an in-process table."""

from collections.abc import Callable

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import (
  local_queue,
  local_table,
  table_spec,
  table_status,
)


class LocalUpdates:
  """Runs updates when a table's counts grant them; reproducible with a seed."""

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    table: local_table.LocalTable | local_queue.LocalQueue,
    is_due: Callable[[table_status.TableStatus], bool],
  ):
    """Keeps the arguments; traces at the first update.

    Args:
      learner: the learner whose `update` is traced.
      spec: spec of the table.
      table: the table that is sampled.
      is_due: returns whether the counts grant one more update.
    """
    self._update = graph_loop.SampledUpdate(learner, spec)
    self._spec, self._table, self._is_due = spec, table, is_due

  def trace(self) -> None:
    """Does nothing: in one process, no worker collects meanwhile."""

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs the updates that the counts grant; see `Updates`."""
    last = None
    for _ in range(updates):
      if not self._is_due(self.statuses()[0]):
        break
      keys, probabilities, size, records = self._table.sample(
        self._spec.batch_size
      )
      last, priorities = self._update(keys, probabilities, size, records)
      if priorities is not None:
        self._table.update_priorities(keys, priorities)
    return last

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns the counts of the table."""
    table = self._table
    return [
      table_status.TableStatus.from_counts(
        table.size, table.inserted, table.sampled, self._spec.min_size
      )
    ]

  def close(self) -> None:
    """Does nothing: there is no connection."""
