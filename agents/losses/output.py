"""What each loss returns."""

import typing

import tensorflow as tf


class LossOutput(typing.NamedTuple):
  """Loss and error of each item."""

  loss: tf.Tensor  # [B]
  # [B]: target - q(o_tm1, a_tm1), or the paper's other base of priorities.
  td_error: tf.Tensor


def check_ranks(**ranked: tuple[tf.Tensor, int]) -> None:
  """Raises if a tensor has another rank than the given one.

  Raises:
    ValueError: one line, with the argument's name.
  """
  for name, (tensor, rank) in ranked.items():
    tf.debugging.assert_rank(tensor, rank, f"{name} must have rank {rank}")


def of_actions(values: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
  """values[b, actions[b]], [B, ...] of values [B, A, ...], actions [B]."""
  return tf.gather(values, actions, axis=1, batch_dims=1)
