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


class NStepReturns(typing.NamedTuple):
  """n-step returns within sequences, without their bootstraps, [B, T] each.

  Attributes:
    reward: discounted sum of the rewards of k <= n steps.
    discount: factor of the bootstrap: gamma^k, or 0 where terminated.
    index: index of the observation of the bootstrap, int32: t + k.
  """

  reward: typing.Any
  discount: typing.Any
  index: typing.Any


def n_step_returns(
  reward: tf.Tensor, discount: tf.Tensor, ended: tf.Tensor, n: int
) -> NStepReturns:
  """Returns the n-step returns of sequences, for a bootstrap of any kind.

  Arguments are those of `n_step.compute_returns`. A return is shorter than n
  steps where the episode or the sequence ends.
  """
  steps: typing.Any = reward.shape[1]
  continues = tf.logical_not(ended[:, :-1])
  next_index = tf.broadcast_to(tf.range(1, steps + 1), tf.shape(reward))
  found = NStepReturns(reward, discount, next_index)
  for _ in range(n - 1):
    # Each return takes the rest of the one that starts a step later.
    later = tf.where(
      continues, reward[:, :-1] + discount[:, :-1] * found.reward[:, 1:],
      reward[:, :-1],
    )  # fmt: skip
    further = tf.where(
      continues, discount[:, :-1] * found.discount[:, 1:], discount[:, :-1]
    )
    index = tf.where(continues, found.index[:, 1:], next_index[:, :-1])
    found = NStepReturns(
      tf.concat([later, reward[:, -1:]], 1),
      tf.concat([further, discount[:, -1:]], 1),
      tf.concat([index, next_index[:, -1:]], 1),
    )
  return found
