"""The tables of a run, from its config."""

import ml_collections
import reverb
import tensorflow as tf

from configs import limiter, sizes
from replay import table_status

TRANSITIONS = "transitions"  # the table that workers write and trainers read


def make_table(
  config: ml_collections.ConfigDict, item_shape: tuple[int, ...]
) -> reverb.Table:
  """The table of transitions: prioritized or uniform, oldest out first.

  Args:
    config: the whole config; its `replay` part is read.
    item_shape: of an item, uint8 (`transitions.Layout`).

  Raises:
    ValueError: Reverb refuses the limiter, with what it would block.
  """
  replay = config.replay
  if replay.sampler == "prioritized":
    sampler = reverb.selectors.Prioritized(replay.priority_exponent)
  else:
    sampler = reverb.selectors.Uniform()
  return reverb.Table(
    name=TRANSITIONS,
    sampler=sampler,
    remover=reverb.selectors.Fifo(),
    max_size=sizes.Sizes.of(config).capacity,
    rate_limiter=_make_limiter(config),
    signature=tf.TensorSpec(item_shape, tf.uint8),
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
    """The counts now.

    Raises:
      KeyError: the server has no such table.
      RuntimeError: the server does not answer.
    """
    return table_status.read(self._client, self._table)


def _make_limiter(
  config: ml_collections.ConfigDict,
) -> reverb.rate_limiters.RateLimiter:
  replay, min_size = config.replay, sizes.Sizes.of(config).min_size
  # In rounds, whose turn it is decides, and a share must fit whatever its size.
  if not replay.samples_per_insert or config.mode == "sync":
    return reverb.rate_limiters.MinSize(min_size)
  return reverb.rate_limiters.SampleToInsertRatio(
    samples_per_insert=replay.samples_per_insert,
    min_size_to_sample=min_size,
    error_buffer=limiter.error_buffer(config),
  )
