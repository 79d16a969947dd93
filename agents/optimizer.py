"""Adam with gradients that are clipped by their global norm.

This Adam runs one fused kernel per variable. Sonnet's Adam runs about fifteen
small operations per variable, which cost more than the arithmetic of a small
network. Keras's can't be traced first in a Launchpad node's thread.
"""

import typing
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

# Decay rates per step of Adam's first and second moments: Kingma and Ba 2015,
# algorithm 1.
_BETA_1, _BETA_2 = 0.9, 0.999
# Lowest value of a dual variable, such as a Lagrange multiplier, for which
# configs allow none below. While its constraint holds, a dual variable falls
# without end, and has to rise as far again before the constraint has an effect.
_LOWEST_DUAL = 1e-6


class Optimizer(tf.Module):
  """Adam optimizer with clipping by the global gradient norm.

  Kingma and Ba 2015, "Adam" (https://arxiv.org/abs/1412.6980), algorithm 1, in
  the efficient order of section 2, whose "epsilon hat" is this epsilon. A
  learner has one optimizer per loss.

  A variable's `constraint` applies after each step.

  The class is no Sonnet module, since Sonnet's constructor formats all values
  of its arguments: half a second for a Nature CNN.
  """

  def __init__(
    self,
    variables: Sequence[tf.Variable],
    epsilon: float,
    max_gradient_norm: float,
    name: str = "optimizer",
  ):
    """Makes Adam's moments, with value 0.

    Args:
      epsilon: term of the denominator that keeps it above 0.
      max_gradient_norm: limit of the L2 norm of all gradients together; larger
        gradients are scaled down to it.
    """
    super().__init__(name=name)
    self._variables = list(variables)
    self._epsilon = epsilon
    # Finite, so that an infinite norm is above it even if nothing is clipped.
    self._max_norm = min(max_gradient_norm, tf.float32.max)
    self._first = [_zeros_like(v, "m") for v in self._variables]
    self._second = [_zeros_like(v, "v") for v in self._variables]
    self._beta_1_power = tf.Variable(tf.constant(_BETA_1), trainable=False)
    self._beta_2_power = tf.Variable(tf.constant(_BETA_2), trainable=False)

  def minimize(
    self,
    loss: tf.Tensor,
    tape: tf.GradientTape,
    learning_rate: float | tf.Tensor,
  ) -> tf.Tensor:
    """Clips the gradient of a loss, and applies one Adam step.

    If a gradient is nan or infinite, all count as 0, since one such step would
    make all variables nan for the rest of the run.

    Args:
      loss: the loss, [].
      learning_rate: step size alpha, a number or a tensor [].

    Returns:
      The L2 norm of all gradients together before clipping, [].
    """
    gradients: list[typing.Any] = list(tape.gradient(loss, self._variables))
    norm = tf.linalg.global_norm(gradients)
    # Few batches need clipping, and scaling the others by 1 would take 2 % of
    # the Nature CNN's update. The condition is false for a norm that is nan or
    # infinite, too.
    gradients = tf.cond(
      norm <= self._max_norm,
      lambda: gradients,
      lambda: self._clip(gradients, norm),
    )
    self._apply(gradients, learning_rate)
    return norm

  def _clip(
    self, gradients: Sequence[tf.Tensor], norm: tf.Tensor
  ) -> list[tf.Tensor]:
    """Scales gradients to the largest norm, or to 0 if it is not finite."""
    scale = tf.where(tf.math.is_finite(norm), self._max_norm / norm, 0.0)
    return [tf.math.multiply_no_nan(x, scale) for x in gradients]

  def _apply(
    self, gradients: Sequence[tf.Tensor], learning_rate: float | tf.Tensor
  ) -> None:
    """Applies one Adam step to the variables and the moments."""
    for gradient, variable, first, second in zip(
      gradients, self._variables, self._first, self._second, strict=True
    ):
      tf.raw_ops.ResourceApplyAdam(
        var=variable.handle,
        m=first.handle,
        v=second.handle,
        beta1_power=self._beta_1_power,
        beta2_power=self._beta_2_power,
        lr=learning_rate,
        beta1=_BETA_1,
        beta2=_BETA_2,
        epsilon=self._epsilon,
        grad=gradient,
      )
      if variable.constraint is not None:
        variable.assign(variable.constraint(variable))
    # Without the control dependency, the powers could change in a step whose
    # iterator has no batch, and which therefore fails.
    with tf.control_dependencies(gradients):
      self._beta_1_power.assign(self._beta_1_power * _BETA_1)
      self._beta_2_power.assign(self._beta_2_power * _BETA_2)


def _zeros_like(variable: tf.Variable, name: str) -> tf.Variable:
  """Returns a new untrainable variable of zeros with the same shape."""
  return tf.Variable(tf.zeros_like(variable), trainable=False, name=name)


class Dual(tf.Module):
  """Dual variables above 0: a temperature [], or multipliers [K].

  They are log(1 + e^x) of the variable x that learns, as in Acme: a step of x
  by s changes small values by a factor of about 1 + s, and those above 1 by
  about s. Or they are e^x, and such a step changes all of them by a factor.

  An `Optimizer` keeps each of them at 1e-6 or above.

  Attributes:
    variable: x, which an `Optimizer` trains.
  """

  def __init__(
    self, values: float | Sequence[float], is_logarithm: bool = False
  ):
    """Makes the variable.

    Args:
      values: initial values of the dual variables, above 0.
      is_logarithm: whether they are e^x. Then large steps of x can make them
        leave any bound: docs/learning.md, "Multipliers of MPO".
    """
    super().__init__()
    self._is_logarithm = is_logarithm
    invert = tf.math.log if is_logarithm else _invert_softplus
    lowest = invert(_LOWEST_DUAL)
    self.variable = tf.Variable(
      invert(values), constraint=lambda x: tf.maximum(x, lowest)
    )

  def __call__(self) -> tf.Tensor:
    """Returns the dual variables, [] or [K]."""
    if self._is_logarithm:
      return tf.exp(self.variable)
    return tf.nn.softplus(self.variable)


def _invert_softplus(values: float | Sequence[float]) -> tf.Tensor:
  """Returns x with log(1 + e^x) = `values`, which are above 0."""
  y = np.asarray(values, np.float64)
  return tf.constant(y + np.log(-np.expm1(-y)), tf.float32)


def decay_factor(decay_steps: int, steps: tf.Variable) -> tf.Tensor:
  """Returns the factor [] of a learning rate that decays linearly.

  It is 1 - steps / decay_steps, but at least 0.05, so that a run beyond
  `decay_steps` still learns. It is always 1 if `decay_steps` is 0.

  Args:
    decay_steps: updates after which the factor would be 0; 0 for no decay.
    steps: updates done, int64 [].
  """
  if not decay_steps:
    return tf.constant(1.0)
  done = tf.cast(steps, tf.float32) / decay_steps
  return tf.maximum(1.0 - done, 0.05)
