"""The tables of a run, from its config."""

import ml_collections
import reverb
import tensorflow as tf

from configs import validation
from replay import packing as packing_lib

TRANSITIONS = "transitions"  # the table that workers write and trainers read


def make_table(
  config: ml_collections.ConfigDict, packing: packing_lib.Packing
) -> reverb.Table:
  """The table of transitions: prioritized or uniform, oldest out first.

  Args:
    config: the whole config; its `replay` part is read.
    packing: layout of an item.

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
    max_size=replay.capacity,
    rate_limiter=_make_limiter(config),
    signature=tf.TensorSpec([packing.row_bytes], tf.uint8),
  )


def _make_limiter(
  config: ml_collections.ConfigDict,
) -> reverb.rate_limiters.RateLimiter:
  replay = config.replay
  if not replay.samples_per_insert:
    return reverb.rate_limiters.MinSize(replay.min_size)
  return reverb.rate_limiters.SampleToInsertRatio(
    samples_per_insert=replay.samples_per_insert,
    min_size_to_sample=replay.min_size,
    error_buffer=validation.error_buffer(config),
  )
