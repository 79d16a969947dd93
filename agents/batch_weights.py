"""Importance weights of batches, for learners that sample from a table."""

import ml_collections
import tensorflow as tf

from slipway.replay.tables import dataset, importance


def compute(
  replay: ml_collections.ConfigDict, batch: dataset.Batch, steps: tf.Variable
) -> tf.Tensor:
  """Returns the importance weights of a batch, float32 [B].

  They are 1 for uniform sampling from one server. With several servers,
  sampling is uniform within each one only, so the weight of the batch's server
  makes up for the others.

  Args:
    replay: the `replay` section of a config, with the fields of
      `groups.REPLAY` and `groups.PRIORITIES`.
    steps: updates done so far, which determine the exponent.
  """
  if replay.sampler == "uniform":
    ones = tf.ones_like(batch.probabilities, tf.float32)
    return ones if batch.shard_weight is None else batch.shard_weight * ones
  start = replay.importance_exponent_start
  end = replay.importance_exponent_end
  done = tf.cast(steps, tf.float32) / replay.importance_steps
  exponent = start + (end - start) * tf.minimum(1.0, done)
  return importance.importance_weights(
    batch.probabilities, batch.table_size, exponent, batch.shard_weight
  )
