"""Optimizers with gradients that are clipped by their global norm.

Adam runs one fused kernel per variable. Sonnet's runs about fifteen
small operations per variable, which cost more than the arithmetic of a small
network. Keras's can't be traced first in a Launchpad node's thread.
"""

import typing
from collections.abc import Sequence

import ml_collections
import numpy as np
import tensorflow as tf

from slipway.agents import core
from slipway.configs import checks

# Decay rates per step of Adam's first and second moments: Kingma and Ba 2015,
# algorithm 1.
_BETA_1, _BETA_2 = 0.9, 0.999
_ADAMS = ("adam", "adamw")
# Decay per step of RMSProp's mean square: Mnih et al. 2016, section 8.
_RMSPROP_DECAY = 0.99
# Lowest value of a dual variable, such as a Lagrange multiplier, for which
# configs allow none below. While its constraint holds, a dual variable falls
# without end, and has to rise as far again before the constraint has an effect.
_LOWEST_DUAL = 1e-6


class Settings(typing.NamedTuple):
  """Settings of an `Optimizer`; see the config fields of the same names.

  Attributes:
    kind: 'adam', 'adamw', 'rmsprop', 'sgd', or 'module:Name' of the user's own
      class; see `core.load_optimizer`.
    epsilon: term of the denominator that keeps it above 0.
    max_gradient_norm: limit of the L2 norm of all gradients together; larger
      gradients are scaled down to it.
    weight_decay: part of the weights that 'adamw' subtracts per unit of the
      learning rate.
  """

  kind: str = "adam"
  epsilon: float = 1e-8
  max_gradient_norm: float = float("inf")
  weight_decay: float = 0.0

  @classmethod
  def from_config(cls, learner: ml_collections.ConfigDict) -> "Settings":
    """Returns the settings of a config's section `learner`."""
    return cls(
      learner.optimizer,
      learner.adam_epsilon,
      learner.max_gradient_norm,
      learner.weight_decay,
    )


class Optimizer(tf.Module):
  """Optimizer of one loss, with clipping by the global gradient norm.

  Adam: Kingma and Ba 2015, "Adam" (https://arxiv.org/abs/1412.6980), algorithm
  1, in the efficient order of section 2, whose "epsilon hat" is this epsilon.
  AdamW subtracts `weight_decay` of weights, not of biases: Loshchilov and
  Hutter 2019, "Decoupled weight decay regularization"
  (https://arxiv.org/abs/1711.05101), algorithm 2. RMSProp divides by the root
  of the mean square, which decays by 0.99, and of epsilon: Mnih et al. 2016,
  "Asynchronous methods for deep reinforcement learning", equation 3.

  A variable's `constraint` applies after each step.

  The class is no Sonnet module, since Sonnet's constructor formats all values
  of its arguments: half a second for a Nature CNN.
  """

  def __init__(
    self,
    variables: Sequence[tf.Variable],
    settings: Settings,
    name: str = "optimizer",
  ):
    """Makes the moments, with value 0."""
    super().__init__(name=name)
    self._variables, self._settings = list(variables), settings
    # Finite, so that an infinite norm is above it even if nothing is clipped.
    self._max_norm = min(settings.max_gradient_norm, tf.float32.max)
    if checks.is_user_code(settings.kind):
      self._own = core.load_optimizer(settings.kind)(self._variables)
    if settings.kind in _ADAMS:
      self._first = [_zeros_like(v, "m") for v in self._variables]
      self._beta_1_power = tf.Variable(tf.constant(_BETA_1), trainable=False)
      self._beta_2_power = tf.Variable(tf.constant(_BETA_2), trainable=False)
    if settings.kind in (*_ADAMS, "rmsprop"):
      self._second = [_zeros_like(v, "v") for v in self._variables]

  def minimize(
    self,
    loss: tf.Tensor,
    tape: tf.GradientTape,
    learning_rate: float | tf.Tensor,
  ) -> tf.Tensor:
    """Clips the gradient of a loss, and applies one step.

    If a gradient is nan or infinite, the step is skipped: nothing changes, the
    moments included.

    Args:
      loss: the loss, [].
      learning_rate: step size alpha, a number or a tensor [].

    Returns:
      The L2 norm of all gradients together before clipping, [].
    """
    gradients: list[typing.Any] = list(tape.gradient(loss, self._variables))
    norm = tf.linalg.global_norm(gradients)

    def apply_clipped() -> None:
      scale = self._max_norm / norm
      self._apply([x * scale for x in gradients], learning_rate)

    # Few batches need clipping, and scaling the others by 1 would take 2 % of
    # the Nature CNN's update. Both conditions are false for nan.
    tf.cond(
      norm <= self._max_norm,
      lambda: self._apply(gradients, learning_rate),
      lambda: tf.cond(norm < np.inf, apply_clipped, lambda: None),
    )
    return norm

  def _apply(
    self, gradients: Sequence[tf.Tensor], learning_rate: float | tf.Tensor
  ) -> None:
    """Applies one step to the variables and the moments."""
    if checks.is_user_code(self._settings.kind):
      with tf.variable_creator_scope(_reject_variable):
        self._own.apply(gradients, learning_rate)
    else:
      step = _STEPS[self._settings.kind]
      for i, gradient in enumerate(gradients):
        step(self, i, gradient, learning_rate)
    for variable in self._variables:
      if variable.constraint is not None:
        variable.assign(variable.constraint(variable))
    if self._settings.kind in _ADAMS:
      # Without the control dependency, the powers could change in a step whose
      # iterator has no batch, and which therefore fails.
      with tf.control_dependencies(gradients):
        self._beta_1_power.assign(self._beta_1_power * _BETA_1)
        self._beta_2_power.assign(self._beta_2_power * _BETA_2)

  def _step_adam(
    self, i: int, gradient: tf.Tensor, learning_rate: float | tf.Tensor
  ) -> None:
    tf.raw_ops.ResourceApplyAdam(
      var=self._variables[i].handle,
      m=self._first[i].handle,
      v=self._second[i].handle,
      beta1_power=self._beta_1_power,
      beta2_power=self._beta_2_power,
      lr=learning_rate,
      beta1=_BETA_1,
      beta2=_BETA_2,
      epsilon=self._settings.epsilon,
      grad=gradient,
    )

  def _step_adamw(
    self, i: int, gradient: tf.Tensor, learning_rate: float | tf.Tensor
  ) -> None:
    variable = self._variables[i]
    if len(variable.shape) > 1:
      with tf.control_dependencies([gradient]):
        decay = learning_rate * self._settings.weight_decay
        variable.assign_sub(decay * variable)
    self._step_adam(i, gradient, learning_rate)

  def _step_rmsprop(
    self, i: int, gradient: tf.Tensor, learning_rate: float | tf.Tensor
  ) -> None:
    square = self._second[i].assign_add(
      (1.0 - _RMSPROP_DECAY) * (gradient * gradient - self._second[i])
    )
    root = tf.sqrt(square + self._settings.epsilon)
    self._variables[i].assign_sub(learning_rate * gradient / root)

  def _step_sgd(
    self, i: int, gradient: tf.Tensor, learning_rate: float | tf.Tensor
  ) -> None:
    self._variables[i].assign_sub(learning_rate * gradient)


_STEPS = {
  "adam": Optimizer._step_adam,
  "adamw": Optimizer._step_adamw,
  "rmsprop": Optimizer._step_rmsprop,
  "sgd": Optimizer._step_sgd,
}


def _reject_variable(*_: typing.Any, **__: typing.Any) -> tf.Variable:
  """Raises ValueError, since a resume could not restore such a variable."""
  raise ValueError(
    "the class of config.learner.optimizer makes a variable in apply, so no "
    "snapshot of the run could be resumed: make it in the constructor"
  )


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
        leave any bound (benchmarks/results/learning.md).
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


def decay_factor(
  learner: ml_collections.ConfigDict, steps: tf.Variable
) -> tf.Tensor:
  """Returns the factor [] of values that decay over `learner.decay_steps`.

  After a part x of these steps it is 1 - x, or with the schedule 'cosine'
  (1 + cos(pi x)) / 2 (Loshchilov and Hutter 2017, "SGDR", equation 5), but at
  least 0.05, so that a run beyond the decay still learns. It is always 1 if
  there are none.

  Args:
    steps: updates done, int64 [].
  """
  if not learner.decay_steps:
    return tf.constant(1.0)
  done = tf.cast(steps, tf.float32) / learner.decay_steps
  if learner.schedule == "cosine":
    done = 0.5 * (1.0 - tf.cos(np.pi * tf.minimum(done, 1.0)))
  return tf.maximum(1.0 - done, 0.05)


def rate_factor(
  learner: ml_collections.ConfigDict, steps: tf.Variable
) -> tf.Tensor:
  """Returns the factor [] of learning rates: the warm-up and the decay.

  In the warm-up it grows in equal steps, from 1 / `learner.warmup_steps`.

  Args:
    steps: updates done, int64 [].
  """
  factor = decay_factor(learner, steps)
  if learner.warmup_steps:
    begun = tf.cast(steps + 1, tf.float32) / learner.warmup_steps
    factor *= tf.minimum(begun, 1.0)
  return factor
