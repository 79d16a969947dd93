"""Updates of target networks: copies, and moving averages of variables."""

import typing
from collections.abc import Sequence

import tensorflow as tf


def copy(target: Sequence[tf.Variable], online: Sequence[tf.Variable]) -> None:
  """Assigns the online network's variables to the target network's."""
  for to, origin in zip(target, online, strict=True):
    to.assign(origin)


def soft_update(
  target: Sequence[tf.Variable], online: Sequence[tf.Variable], tau: typing.Any
) -> None:
  """Updates moving averages: target := (1 - tau) target + tau online.

  Lillicrap et al. 2016, "Continuous control with deep reinforcement learning"
  (https://arxiv.org/abs/1509.02971), algorithm 1.

  Args:
    tau: weight of the online variables, in [0, 1], a number or a tensor [].
  """
  for to, origin in zip(target, online, strict=True):
    to.assign_add(tau * (origin - to))


def add_to_average(
  average: Sequence[tf.Variable],
  online: Sequence[tf.Variable],
  count: tf.Tensor,
  least_weight: float,
) -> None:
  """Adds a network's variables to the average of those that were added before.

  Izmailov et al. 2018, "Averaging weights leads to wider optima and better
  generalization" (https://arxiv.org/abs/1803.05407), section 3.2. The average
  is the mean of all that were added, until `least_weight` is more than the
  weight of one in that mean; from then on older ones fade.

  Args:
    count: number of networks added, with this one, an integer [].
    least_weight: least weight of the added network, in [0, 1].
  """
  weight = tf.maximum(least_weight, 1.0 / tf.cast(count, tf.float32))
  soft_update(average, online, weight)
