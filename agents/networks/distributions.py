"""Distributions of actions, for acting in NumPy and for learning in TensorFlow.

Each class takes array operations, such as `numpy_ops` or `tf_ops`, and arrays
or tensors of parameters for a batch of B distributions. In TensorFlow, samples
of Gaussians are differentiable with respect to the parameters.
"""

import math
import typing

import numpy as np

Array = typing.Any  # np.ndarray with `numpy_ops`, tf.Tensor with `tf_ops`
Ops = typing.Any  # `numpy_ops` or `tf_ops`
# Source of samples: np.random.Generator in NumPy, seed int32 [2] in TensorFlow.
Random = typing.Any

# Lower bound of uniform samples, as log(0) would be infinite.
_TINY = float(np.finfo(np.float32).tiny)

# Largest absolute value of a tanh-Gaussian's action that has a density; float32
# has few values beyond it, and tanh an error of some of them.
_MAX_TANH = 1.0 - 1e-5

# Names of the distributions of continuous actions that have a density.
CONTINUOUS = ("gaussian", "conditional_gaussian", "tanh_gaussian")
# Name of the distribution of continuous actions that has only one action.
DETERMINISTIC = "deterministic"
# Names of all distributions that `make_distribution` makes.
KINDS = ("categorical", "product_categorical", *CONTINUOUS, DETERMINISTIC)


class Categorical:
  """Distribution of one of A discrete actions: softmax(logits)."""

  def __init__(self, ops: Ops, logits: Array):
    """Makes B distributions from logits [B, A]."""
    self._ops, self.logits = ops, logits

  def sample(self, random: Random) -> Array:
    """Samples actions int32 [B], by the Gumbel-max trick."""
    ops = self._ops
    u = ops.Noise(random).uniform(ops.shape(self.logits))
    u = ops.maximum(u, _TINY)
    return ops.argmax(self.logits - ops.log(-ops.log(u)))

  def mode(self) -> Array:
    """Returns the most probable actions, int32 [B]."""
    return self._ops.argmax(self.logits)

  def log_prob(self, action: Array) -> Array:
    """Returns log p(action) [B] of actions int [B]."""
    logs = self._ops.log_softmax(self.logits)
    chosen = self._ops.one_hot(action, self.logits.shape[-1])
    return self._ops.sum(chosen * logs, -1)

  def entropy(self, random: Random = None) -> Array:
    """Returns the entropies -sum_a p(a) log p(a), [B]."""
    del random
    logs = self._ops.log_softmax(self.logits)
    return -self._ops.sum(self._ops.exp(logs) * logs, -1)

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) = sum_a p(a) (log p(a) - log q(a)), [B]."""
    logs = self._ops.log_softmax(self.logits)
    difference = logs - self._ops.log_softmax(other.logits)
    return self._ops.sum(self._ops.exp(logs) * difference, -1)

  def replace_parts(self, other: typing.Any) -> tuple[typing.Any, ...]:
    """Returns `other` in a tuple; see `Gaussian.replace_parts`."""
    return (other,)


class ProductCategorical(Categorical):
  """Distribution of K independent components, each a `Categorical` of N values.

    log p(a) = sum_k log p_k(a_k)

  Logits are [B, K, N], and actions int32 [B, K]. If a component has fewer than
  N values, its surplus logits must be `action_masks.ILLEGAL`.
  """

  def log_prob(self, action: Array) -> Array:
    """Returns log p(action) [B] of actions int [B, K]."""
    return self._ops.sum(super().log_prob(action), -1)

  def entropy(self, random: Random = None) -> Array:
    """Returns the entropies [B], each the sum over the components."""
    return self._ops.sum(super().entropy(random), -1)

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) [B], the sum over the components."""
    return self._ops.sum(super().kl(other), -1)


class Gaussian:
  """Distribution of actions with A independent, normal components."""

  def __init__(self, ops: Ops, mean: Array, log_std: Array):
    """Makes B distributions from means and log standard deviations [B, A]."""
    self._ops, self.mean, self.log_std = ops, mean, log_std

  def sample(self, random: Random) -> Array:
    """Samples actions float32 [B, A]."""
    ops = self._ops
    e = ops.Noise(random).normal(ops.shape(self.mean))
    return self.mean + ops.exp(self.log_std) * e

  def mode(self) -> Array:
    """Returns the most probable actions [B, A]: the means."""
    return self.mean

  def log_prob(self, action: Array) -> Array:
    """Returns the log-density [B] of actions [B, A], summed over A."""
    return self._ops.sum(self.log_probs(action), -1)

  def log_probs(self, action: Array) -> Array:
    """Returns the log-density of each component of actions, [B, A]."""
    z = (action - self.mean) * self._ops.exp(-self.log_std)
    return -0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)

  def log_tail(self, bound: Array) -> Array:
    """Returns the log-probability that a component is above `bound` [B, A]."""
    z = (bound - self.mean) * self._ops.exp(-self.log_std)
    return self._ops.log_normal_tail(z)

  def entropy(self, random: Random = None) -> Array:
    """Returns the entropies sum_a log(std_a sqrt(2 pi e)), [B]."""
    del random
    return self._ops.sum(self.log_std + 0.5 * (1 + math.log(2 * math.pi)), -1)

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) [B], summed over the components of an action.

      log(s' / s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2

    with mean m and standard deviation s of `self`, and m', s' of `other`.
    """
    ops = self._ops
    ratio = self.log_std - other.log_std
    z = (self.mean - other.mean) * ops.exp(-other.log_std)
    each = 0.5 * (ops.exp(2.0 * ratio) + z * z - 1.0) - ratio
    return ops.sum(each, -1)

  def replace_parts(self, other: typing.Any) -> tuple[typing.Any, ...]:
    """Returns two Gaussians, each with one parameter of another Gaussian.

    The first one has the mean of `other` and the deviation of `self`, the
    second one the mean of `self` and the deviation of `other`. MPO and V-MPO
    bound the KL divergence from `self` to each of them separately: Abdolmaleki
    et al. 2018, "Relative entropy regularized policy iteration"
    (https://arxiv.org/abs/1812.02256), equations 9 and 10.
    """
    ops = self._ops
    return (
      Gaussian(ops, other.mean, self.log_std),
      Gaussian(ops, self.mean, other.log_std),
    )


class TanhGaussian:
  """Distribution of tanh(x), where x has independent normal components.

  Actions are float32 [B, A] in (-1, 1).

  Haarnoja et al. 2018, "Soft actor-critic" (https://arxiv.org/abs/1801.01290),
  appendix C.

  Attributes:
    normal: the distribution of x.
  """

  def __init__(self, ops: Ops, mean: Array, log_std: Array):
    """Makes B distributions from means and log deviations [B, A] of x."""
    self._ops, self.normal = ops, Gaussian(ops, mean, log_std)

  def sample(self, random: Random) -> Array:
    """Samples actions float32 [B, A]."""
    return self._ops.tanh(self.normal.sample(random))

  def sample_with_log_prob(self, random: Random) -> tuple[Array, Array]:
    """Samples actions [B, A]; returns the actions and their log-densities [B].

    The log-densities are computed from x, so they are exact where tanh(x)
    rounds to +-1.
    """
    x = self.normal.sample(random)
    log_prob = self._ops.sum(self._log_probs_before_tanh(x), -1)
    return self._ops.tanh(x), log_prob

  def mode(self) -> Array:
    """Returns tanh(mean of x) [B, A], the actions of SAC's evaluation."""
    return self._ops.tanh(self.normal.mean)

  def log_prob(self, action: Array) -> Array:
    """Returns the log-density [B] of actions [B, A], summed over A.

    Components beyond +-(1 - 1e-5) have rounded the x that they were sampled
    from, and other policies' probability ratios at a guessed x would be wrong.
    So such a component has the log-probability of all x that round like this:
    that of the normal distribution's tail beyond +-6.1.
    """
    ops = self._ops
    y = ops.clip(action, -_MAX_TANH, _MAX_TANH)
    x = 0.5 * (ops.log(1 + y) - ops.log(1 - y))
    side = ops.sign(action)
    mirrored = Gaussian(ops, side * self.normal.mean, self.normal.log_std)
    each = ops.where(
      side * action > _MAX_TANH,
      mirrored.log_tail(math.atanh(_MAX_TANH)),
      self._log_probs_before_tanh(x),
    )
    return ops.sum(each, -1)

  def entropy(self, random: Random = None) -> Array:
    """Estimates the entropies [B] from one sample each.

    The entropy has no closed form.
    """
    return -self.sample_with_log_prob(random)[1]

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) [B], equal to the KL of the Gaussians of x."""
    return self.normal.kl(other.normal)

  def replace_parts(self, other: typing.Any) -> tuple[typing.Any, ...]:
    """Returns the two results of `Gaussian.replace_parts`, with tanh."""
    return tuple(
      TanhGaussian(self._ops, part.mean, part.log_std)
      for part in self.normal.replace_parts(other.normal)
    )

  def _log_probs_before_tanh(self, x: Array) -> Array:
    """Returns the log-density of each component of tanh(x), for x [B, A]."""
    # log p(tanh(x)) = log N(x) - log(1 - tanh(x)^2): Haarnoja et al. 2018,
    # appendix C, equation 21, with a stable form of the last logarithm.
    ops = self._ops
    log_slope = 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))
    return self.normal.log_probs(x) - log_slope


class Deterministic:
  """Distribution of a deterministic policy: one action [B, A] in [-1, 1]."""

  def __init__(self, ops: Ops, action: Array):
    """Makes the distribution.

    Args:
      action: the actions [B, A].
    """
    del ops
    self._action = action

  def sample(self, random: Random) -> Array:
    """Returns the actions [B, A], without random numbers."""
    del random
    return self._action

  def mode(self) -> Array:
    """Returns the actions [B, A]."""
    return self._action


# Distribution of actions that `make_distribution` returns.
Distribution = (
  Categorical | ProductCategorical | Gaussian | TanhGaussian | Deterministic
)


def make_distribution(
  kind: str, ops: Ops, parameters: Array, components: int = 1
) -> Distribution:
  """Makes B action distributions from the parameters that a policy computes.

  Args:
    parameters: logits [B, A] of 'categorical', logits [B, K * N] of
      'product_categorical', actions [B, A] of 'deterministic', or A means and A
      log deviations [B, 2 A].
    components: K, the number of components of 'product_categorical'.

  Raises:
    ValueError: no distribution has this name.
  """
  check_kind(kind)
  if kind == "categorical":
    return Categorical(ops, parameters)
  if kind == "product_categorical":
    size = parameters.shape[-1] // components
    logits = ops.reshape(parameters, (-1, components, size))
    return ProductCategorical(ops, logits)
  if kind == DETERMINISTIC:
    return Deterministic(ops, parameters)
  mean, log_std = ops.split(parameters, 2)
  make = TanhGaussian if kind == "tanh_gaussian" else Gaussian
  return make(ops, mean, log_std)


def kl_parts(
  one: typing.Any, other: typing.Any
) -> tuple[tuple[typing.Any, ...], tuple[Array, ...]]:
  """Splits KL(one || other) into constraints, as MPO and V-MPO need them.

  Returns:
    The K results of `replace_parts`, and the divergence [B] from `one` to each
    of them. K is 2 for Gaussians and 1 for categorical distributions.
  """
  parts = one.replace_parts(other)
  return parts, tuple(one.kl(part) for part in parts)


def check_kind(kind: str) -> None:
  """Raises ValueError if no distribution has this name."""
  if kind not in KINDS:
    raise ValueError(
      f"kind={kind!r} is no distribution: use one of {', '.join(KINDS)}"
    )
