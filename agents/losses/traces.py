"""Traces: sums over the later steps of a rollout, up to the end of an episode.

The estimators of advantages and of action values are such sums.
"""

import typing

import tensorflow as tf


def zero_at_ends(discount: tf.Tensor, ended: tf.Tensor) -> tf.Tensor:
  """Returns discounts [B, T], set to 0 where the step ended its episode.

  Args:
    discount: [B, T], gamma, or 0 where terminated.
    ended: [B, T] bool, whether the step was the last one of its episode,
      terminated or truncated.
  """
  return discount * (1.0 - tf.cast(ended, discount.dtype))


def discounted_sums(x: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
  """Returns sums y [B, T] with y_t = x_t + factor_t y_{t+1} and y_T = 0.

  Each pass doubles the number of terms: Hillis and Steele 1986, "Data parallel
  algorithms". So 128 steps take 7 passes over [B, T], not 128 small operations.

  Args:
    x: terms [B, T] of steps 0 to T - 1.
    factor: weights [B, T] of the next step's sum.
  """
  shift, steps = 1, typing.cast(int, x.shape[1])
  while shift < steps:
    padding = [[0, 0], [0, shift]]
    x += factor * tf.pad(x[:, shift:], padding)
    factor *= tf.pad(factor[:, shift:], padding)
    shift *= 2
  return x
