"""Target networks: copies and moving averages of online networks."""

import typing
from collections.abc import Sequence

import tensorflow as tf


def copy(target: Sequence[tf.Variable], online: Sequence[tf.Variable]) -> None:
  """Copies the online network's variables to the target network."""
  for to, origin in zip(target, online, strict=True):
    to.assign(origin)


def copy_periodically(
  target: Sequence[tf.Variable],
  online: Sequence[tf.Variable],
  steps: typing.Any,
  period: int,
) -> None:
  """Copies the online variables to the target if `period` divides `steps`.

  Mnih et al. 2015, "Human-level control through deep reinforcement learning",
  algorithm 1.
  """
  tf.cond(steps % period == 0, lambda: copy(target, online), lambda: None)


def soft_update(
  target: Sequence[tf.Variable], online: Sequence[tf.Variable], tau: float
) -> None:
  """Moves the target's variables: target := (1 - tau) target + tau online.

  Lillicrap et al. 2016, "Continuous control with deep reinforcement learning"
  (https://arxiv.org/abs/1509.02971), algorithm 1.
  """
  for to, origin in zip(target, online, strict=True):
    to.assign_add(tau * (origin - to))
