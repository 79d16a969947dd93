"""The output of losses, and helpers that losses share."""

import typing

import tensorflow as tf


class LossOutput(typing.NamedTuple):
  """Loss and error of each element of a batch."""

  loss: tf.Tensor  # [B]
  # [B], target - q(o_tm1, a_tm1), or the error from which the paper of the loss
  # computes priorities.
  td_error: tf.Tensor


def check_ranks(**ranked: tuple[tf.Tensor, int]) -> None:
  """Checks the ranks of tensors: `check_ranks(q_t=(q_t, 2))`.

  Raises:
    ValueError: a tensor has another rank; the message has its name.
  """
  for name, (tensor, rank) in ranked.items():
    tf.debugging.assert_rank(tensor, rank, f"{name} must have rank {rank}")


def select_actions(values: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
  """Returns values[b, actions[b]] [B, ...], of [B, A, ...] and actions [B]."""
  return tf.gather(values, actions, axis=1, batch_dims=1)


def huber(error: tf.Tensor, delta: float) -> tf.Tensor:
  """Returns error^2 / 2 where |error| <= delta, and a line of slope delta else.

  Huber 1964 (https://doi.org/10.1214/aoms/1177703732), as in Mnih et al. 2015,
  methods, where its gradient is called error clipping.

  Args:
    error: of any shape.
    delta: error above which the loss is linear.
  """
  size = tf.abs(error)
  inside = tf.minimum(size, delta)
  return inside * (size - 0.5 * inside)
