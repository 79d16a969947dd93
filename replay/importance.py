"""Importance weights: what prioritized sampling distorts, put right."""

import tensorflow as tf


def importance_weights(
  probabilities: tf.Tensor, table_size: tf.Tensor, exponent: tf.Tensor
) -> tf.Tensor:
  """w_i = (N P(i))^-beta / max_j w_j. Schaul et al. 2016, section 3.4.

  Args:
    probabilities: [B] P(i), with which each item was drawn.
    table_size: [B] N, items in the table when each was drawn.
    exponent: [] beta, in [0, 1].

  Returns:
    float32 [B], at most 1.
  """
  expected = tf.cast(table_size, tf.float64) * probabilities  # [B] N P(i)
  # A restored or just filled table may report 0 for an item it gave out.
  expected = tf.cast(tf.maximum(expected, 1e-12), tf.float32)
  weights = tf.pow(expected, -tf.cast(exponent, tf.float32))
  return weights / tf.reduce_max(weights)
