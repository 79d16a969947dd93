"""Reverb's table of a run, made from its `TableSpec`."""

import reverb
import tensorflow as tf

from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_spec, table_status

TRANSITIONS = "transitions"  # name of the table of items
# Items. A queue is bounded by its limiter: it must not evict items.
_QUEUE_SIZE = 1 << 30


def make_table(
  spec: table_spec.TableSpec, limiter: limiter_lib.Limiter | None = None
) -> reverb.Table:
  """Makes the table of items, which evicts the oldest first.

  Args:
    spec: spec of the table.
    limiter: limiter of the table; None: `spec.limiter`.

  Raises:
    ValueError: Reverb rejects the limiter.
  """
  limiter = limiter or spec.limiter
  sampler = reverb.selectors.Uniform()
  if spec.consumed:
    sampler = reverb.selectors.Fifo()
  elif spec.priority_exponent is not None:
    sampler = reverb.selectors.Prioritized(spec.priority_exponent)
  return reverb.Table(
    name=TRANSITIONS,
    sampler=sampler,
    remover=reverb.selectors.Fifo(),
    max_size=_QUEUE_SIZE if spec.consumed else spec.capacity,
    max_times_sampled=1 if spec.consumed else 0,
    rate_limiter=reverb.rate_limiters.RateLimiter(
      samples_per_insert=limiter.samples_per_insert,
      min_size_to_sample=limiter.min_size,
      min_diff=limiter.min_diff,
      max_diff=limiter.max_diff,
    ),
    signature=tf.TensorSpec(spec.schema.item_shape, tf.uint8),
  )


class TableView:
  """Reads the status of one server's table."""

  def __init__(self, server_address: str, table: str):
    """Keeps the arguments; opens no connection.

    Args:
      server_address: address of the server that has the table.
      table: name of the table.
    """
    self._client = reverb.Client(server_address)
    self._table = table

  def status(self) -> table_status.TableStatus:
    """Returns the table's status.

    Raises:
      KeyError: the server has no such table.
      RuntimeError: the server does not reply.
    """
    return table_status.read(self._client, self._table)
