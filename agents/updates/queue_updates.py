"""Updates on batches from queues, whose items are used once."""

from collections.abc import Sequence

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import (
  queue_reader,
  table_spec,
  table_status,
)


class QueueUpdates(updates_core.Updates):
  """Takes whole batches out of queues, and runs an update on each batch.

  Batches are not prefetched, so a killed trainer loses at most the batch of its
  current update. The capacity of the queue limits the policy lag of a batch.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    servers: Sequence[str],
  ):
    """Makes a reader per queue; `trace` or the first update traces the graph.

    Args:
      learner: the learner whose `update` is traced.
      spec: spec of the queues, which are equal.
      servers: 'host:port' of the servers, each of which has one queue.
    """
    self._update = graph_loop.SampledUpdate(learner, spec)
    self._readers = [
      queue_reader.QueueReader(server, spec.batch_size) for server in servers
    ]
    self._next = 0

  def trace(self) -> None:
    """Traces the update's graph; see `Updates`."""
    self._update.trace()

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs at most `updates` updates, while a queue has a whole batch."""
    last = None
    for _ in range(updates):
      batch = self._take_batch()
      if batch is None:
        break
      last, _ = self._update(*batch)
    return last

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns the item counts of each queue."""
    return [reader.status() for reader in self._readers]

  def drop_rest(self) -> None:
    """Removes the oldest items of queues that are no whole batches."""
    for reader in self._readers:
      reader.drop_rest()

  def _take_batch(self) -> queue_reader.Samples | None:
    """Takes a batch out of the next queue with a whole batch."""
    for _ in self._readers:
      reader = self._readers[self._next]
      self._next = (self._next + 1) % len(self._readers)
      if (batch := reader.take()) is not None:
        return batch
    return None
