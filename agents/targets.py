"""Updates of target networks: copies, and moving averages of variables."""

import typing
from collections.abc import Sequence

import tensorflow as tf


def copy(target: Sequence[tf.Variable], online: Sequence[tf.Variable]) -> None:
  """Assigns the online network's variables to the target network's."""
  for to, origin in zip(target, online, strict=True):
    to.assign(origin)


def copy_periodically(
  target: Sequence[tf.Variable],
  online: Sequence[tf.Variable],
  steps: typing.Any,
  period: int,
) -> None:
  """Copies the online variables to the target every `period` steps.

  Mnih et al. 2015, "Human-level control through deep reinforcement learning",
  algorithm 1.

  Args:
    target: variables of the target network.
    online: variables of the online network, in the same order.
    steps: updates done so far, an integer tensor or variable []; variables are
      copied if `period` divides it.
    period: updates between two copies.
  """
  tf.cond(steps % period == 0, lambda: copy(target, online), lambda: None)


def soft_update(
  target: Sequence[tf.Variable], online: Sequence[tf.Variable], tau: float
) -> None:
  """Updates moving averages: target := (1 - tau) target + tau online.

  Lillicrap et al. 2016, "Continuous control with deep reinforcement learning"
  (https://arxiv.org/abs/1509.02971), algorithm 1.

  Args:
    target: variables of the target network.
    online: variables of the online network, in the same order.
    tau: weight of the online variables, in [0, 1].
  """
  for to, origin in zip(target, online, strict=True):
    to.assign_add(tau * (origin - to))
