"""Reverb tables: makes a run's table from its `TableSpec`."""

import reverb
import tensorflow as tf

from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_spec, table_status

# Name of the table of items in each replay server.
TRANSITIONS = "transitions"
# Reverb's `max_size` of a queue, in items. It is so large that no item is ever
# evicted: the limiter bounds a queue.
_QUEUE_SIZE = 1 << 30


def make_table(
  spec: table_spec.TableSpec, limiter: limiter_lib.Limiter | None = None
) -> reverb.Table:
  """Makes the Reverb table of a spec, which evicts the oldest items first.

  Args:
    limiter: rate limiter of the table; None: `spec.limiter`.

  Raises:
    ValueError: Reverb rejects the limiter.
  """
  limiter = limiter or spec.limiter
  sampler = reverb.selectors.Uniform()
  if spec.is_queue:
    sampler = reverb.selectors.Fifo()
  elif spec.priority_exponent is not None:
    sampler = reverb.selectors.Prioritized(spec.priority_exponent)
  return reverb.Table(
    name=TRANSITIONS,
    sampler=sampler,
    remover=reverb.selectors.Fifo(),
    max_size=_QUEUE_SIZE if spec.is_queue else spec.capacity,
    max_times_sampled=1 if spec.is_queue else 0,
    rate_limiter=reverb.rate_limiters.RateLimiter(
      samples_per_insert=limiter.samples_per_insert,
      min_size_to_sample=limiter.min_size,
      min_diff=limiter.min_diff,
      max_diff=limiter.max_diff,
    ),
    signature=tf.TensorSpec(spec.schema.item_shape, tf.uint8),
  )


class TableView:
  """Client that reads the status of one server's table `TRANSITIONS`."""

  def __init__(self, address: str):
    """Makes a client of the server at 'host:port', without a connection."""
    self._client = reverb.Client(address)

  def status(self) -> table_status.TableStatus:
    """Requests the counts of the table; raises as `table_status.read`."""
    return table_status.read(self._client, TRANSITIONS)
