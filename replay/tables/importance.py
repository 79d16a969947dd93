"""Importance weights: what prioritized sampling distorts, put right."""

import tensorflow as tf


def importance_weights(
  probabilities: tf.Tensor,
  table_size: tf.Tensor,
  exponent: tf.Tensor,
  share: tf.Tensor | None = None,
) -> tf.Tensor:
  """w_i = (N P(i))^-beta / max_j w_j. Schaul et al. 2016, section 3.4.

  Of K shards each is drawn from as often as the others (a stratified sample),
  so the item i of shard s with N_s of all N items has P(i) = P_s(i) / K, and

    (N P(i))^-beta = (N_s P_s(i))^-beta * (K N_s / N)^beta.

  The first factor is that of a table alone. The second is the same for a whole
  batch, which is of one shard, and would be lost with the batch's maximum:
  it is taken apart, with the largest shard's as its maximum, which is
  `share`^beta. It is 1 while shards have equally many items, and gives those of
  a shard that fills again no more weight than the others have.

  Args:
    probabilities: [B] P(i), or P_s(i), with which each item was drawn.
    table_size: [B] N, or N_s, items in the table when each was drawn.
    exponent: [] beta, in [0, 1].
    share: [] N_s / max_t N_t, in [0, 1]; None: there is one table.

  Returns:
    float32 [B], at most 1.
  """
  expected = tf.cast(table_size, tf.float64) * probabilities  # [B] N P(i)
  # A restored or just filled table may report 0 for an item it gave out.
  expected = tf.cast(tf.maximum(expected, 1e-12), tf.float32)
  exponent = tf.cast(exponent, tf.float32)
  weights = tf.pow(expected, -exponent)
  weights = weights / tf.reduce_max(weights)
  return weights if share is None else tf.pow(share, exponent) * weights
