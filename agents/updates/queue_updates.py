"""Queue updates: runs updates on batches from queues, each used once."""

from collections.abc import Sequence

from slipway.agents import core
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import graph_loop
from slipway.replay.tables import (
  queue_reader,
  shard_monitor,
  table_spec,
  table_status,
)


class QueueUpdates:
  """Takes whole batches out of queues, and runs an update on each immediately.

  No item is lost while the trainer waits, and a killed trainer loses at most
  the batch of its current update. The queue's capacity limits the age of a
  batch.
  """

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    monitors: Sequence[shard_monitor.ShardMonitor],
  ):
    """Makes the readers; traces at the first update, or before by `trace`.

    Args:
      learner: the learner whose `update` is traced.
      spec: spec of the queue.
      monitors: monitors of the servers.
    """
    self._update = graph_loop.SampledUpdate(learner, spec)
    self._readers = [
      queue_reader.QueueReader(monitor, spec.batch_size) for monitor in monitors
    ]
    self._next = 0

  def trace(self) -> None:
    """Traces the update; see `Updates`."""
    self._update.trace()

  def run(self, updates: int) -> updates_core.LastUpdate | None:
    """Runs updates while the queues have whole batches; see `Updates`."""
    last = None
    for _ in range(updates):
      batch = self._take_batch()
      if batch is None:
        break
      last, _ = self._update(*batch)
    return last

  def statuses(self) -> list[table_status.TableStatus]:
    """Returns the counts of the queues that are up."""
    statuses = [reader.status() for reader in self._readers]
    return [status for status in statuses if status is not None]

  def close(self) -> None:
    """Does nothing: no call is open between two updates."""

  def _take_batch(self) -> queue_reader.Samples | None:
    """Returns a batch of the next server that has one, or None."""
    for _ in self._readers:
      reader = self._readers[self._next]
      self._next = (self._next + 1) % len(self._readers)
      if (batch := reader.take()) is not None:
        return batch
    return None
