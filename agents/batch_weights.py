"""Importance weights of batches, for learners that sample from a table."""

import ml_collections
import tensorflow as tf

from slipway.replay.tables import dataset


def compute(
  replay: ml_collections.ConfigDict, batch: dataset.Batch, steps: tf.Variable
) -> tf.Tensor:
  """Returns the importance weights of a batch, float32 [B].

  They are 1 for recorded elements, and for uniform sampling from one server.
  With several servers, sampling is uniform within each one only, so the weight
  of the batch's server makes up for the others.
  """
  return _add_recorded(batch, _compute_for_table(replay, batch, steps))


def _add_recorded(batch: dataset.Batch, weights: tf.Tensor) -> tf.Tensor:
  """Returns weights [B], with ones for the batch's recorded elements."""
  if not batch.recorded:
    return weights
  return tf.concat([weights, tf.ones(batch.recorded, weights.dtype)], axis=0)


def _compute_for_table(
  replay: ml_collections.ConfigDict, batch: dataset.Batch, steps: tf.Variable
) -> tf.Tensor:
  """Returns the importance weights of the elements from the table."""
  if replay.sampler == "uniform":
    ones = tf.ones_like(batch.probabilities, tf.float32)
    return ones if batch.shard_weight is None else batch.shard_weight * ones
  return importance_weights(
    batch.probabilities,
    batch.table_size,
    compute_exponent(replay, steps),
    batch.shard_weight,
  )


def compute_exponent(
  replay: ml_collections.ConfigDict, steps: tf.Variable | int
) -> tf.Tensor:
  """Returns beta, the exponent of the importance weights, float32 [].

  Args:
    replay: the config's section `replay`, with a prioritized sampler.
    steps: updates of the learner so far.
  """
  start = replay.importance_exponent_start
  end = replay.importance_exponent_end
  done = tf.cast(steps, tf.float32) / replay.importance_steps
  return start + (end - start) * tf.minimum(1.0, done)


def compute_inverse_rates(
  replay: ml_collections.ConfigDict, batch: dataset.Batch
) -> tf.Tensor | None:
  """Returns 1 / (N P(i)), with which statistics of batches are the table's.

  These are importance weights with beta = 1 that are not divided by the largest
  one of a batch, so they have one scale in all batches.

  Returns:
    Weights float64 [B], or None for uniform sampling from one server.
  """
  if replay.sampler == "uniform" and batch.shard_weight is None:
    return None
  expected = tf.cast(batch.table_size, tf.float64) * batch.probabilities
  if replay.sampler == "uniform":
    expected = tf.ones_like(expected)
  # A restored or new table may report 0 for an item that it has returned.
  weights = tf.where(expected > 0, 1.0 / expected, 1.0)
  if batch.shard_weight is not None:
    weights *= tf.cast(batch.shard_weight, tf.float64)
  return _add_recorded(batch, weights)


def importance_weights(
  probabilities: tf.Tensor,
  table_size: tf.Tensor,
  exponent: tf.Tensor,
  shard_weight: tf.Tensor | None = None,
) -> tf.Tensor:
  """Returns importance weights [B], at most 1 (Schaul et al. 2016, 3.4).

    w_i = (N P(i))^-beta / max_j w_j

  With several shards, all items of a batch come from one of them (a stratified
  sample). Shard s has N_s of all N items and gives a fraction f_s of the
  batches. So an item i of the shard has P(i) = f_s P_s(i), and

    (N P(i))^-beta = (N_s P_s(i))^-beta * (N_s / (f_s N))^beta.

  The first factor is that of a single table. The second factor is the same for
  a whole batch, so dividing by the batch's maximum would cancel it. Therefore
  it is normalized separately, by its value for the shard with the largest
  N_s / f_s, which gives `shard_weight`^beta. This is 1 if the batches of all
  shards are in proportion to their items.

  Args:
    probabilities: probability of sampling each item from its table, P(i) or
      P_s(i), [B].
    table_size: items in that table when each was sampled, N or N_s, [B].
    exponent: beta, in [0, 1], [].
    shard_weight: (N_s / f_s) / max_t (N_t / f_t), in [0, 1], []; None: there is
      one table.
  """
  expected = tf.cast(table_size, tf.float64) * probabilities  # [B] N P(i)
  # A restored or new table may report 0 for an item that it has returned.
  expected = tf.cast(tf.maximum(expected, 1e-12), tf.float32)
  exponent = tf.cast(exponent, tf.float32)
  weights = tf.pow(expected, -exponent)
  weights = weights / tf.reduce_max(weights)
  if shard_weight is None:
    return weights
  return tf.pow(shard_weight, exponent) * weights
