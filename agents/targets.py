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
