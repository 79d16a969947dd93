"""Updates on batches of an in-process table, for mode `single`."""

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


class LocalUpdates(updates_core.Updates):
  """Runs updates on batches of an in-process table; see `Updates`.

  Updates are due at fixed counts of items, so a run is reproducible with a
  fixed seed.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    table: local_table.LocalTable | local_queue.LocalQueue,
    is_due: Callable[[table_status.TableStatus], bool],
    sample_recorded: graph_loop.SampleRecorded = lambda: None,
  ):
    """Makes the update; the first `run` with a batch traces the graph.

    Args:
      is_due: function of the table's counts that returns whether another update
        is due.
      sample_recorded: function that samples the recorded items of a batch.
    """
    self._update = graph_loop.SampledUpdate(learner, spec, sample_recorded)
    self._spec, self._table, self._is_due = spec, table, is_due

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs at most `updates` updates, while `is_due` holds; see `Updates`."""
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
    """Returns the item counts of the table, a list of one."""
    table = self._table
    return [
      table_status.TableStatus.from_counts(
        table.size, table.inserted, table.sampled, self._spec.min_size
      )
    ]
