"""The tables of a run: Reverb's, from their spec."""

import reverb
import tensorflow as tf

from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_spec, table_status

TRANSITIONS = "transitions"  # the table that workers write and trainers read
_QUEUE_SIZE = 1 << 30  # items: a queue's limiter bounds it, and evicts nothing


def make_table(
  spec: table_spec.TableSpec, limiter: limiter_lib.Limiter | None = None
) -> reverb.Table:
  """Makes the table of transitions, of which the oldest are evicted first.

  Args:
    spec: of the table.
    limiter: that blocks one side or the other; None: `spec.limiter`.

  Raises:
    ValueError: Reverb rejects the limiter, with what it would block.
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
  """The counts of one table, from anywhere."""

  def __init__(self, server_address: str, table: str):
    """Does not connect yet.

    Args:
      server_address: of the server that has the table.
      table: its name.
    """
    self._client = reverb.Client(server_address)
    self._table = table

  def status(self) -> table_status.TableStatus:
    """Returns the counts now.

    Raises:
      KeyError: the server has no such table.
      RuntimeError: the server does not answer.
    """
    return table_status.read(self._client, self._table)
