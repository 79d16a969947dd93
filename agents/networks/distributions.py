"""Distributions of actions, for acting in NumPy and for learning in TensorFlow.

Each takes an `ops` module, `numpy_ops` or `tf_ops`, and parameters of its
arrays. `random` is a np.random.Generator in NumPy, and a seed int32 [2] in
TensorFlow, whose samples are differentiable in the parameters of Gaussians.
"""

import math
import typing

import numpy as np

Array = typing.Any

CONTINUOUS = ("gaussian", "conditional_gaussian", "tanh_gaussian")
# Smallest uniform number that is used: log(0) would be infinite.
_TINY = float(np.finfo(np.float32).tiny)
KINDS = ("categorical", "product_categorical", *CONTINUOUS)


class Categorical:
  """One of A actions, with probabilities softmax(logits)."""

  def __init__(self, ops: typing.Any, logits: Array):
    """Takes logits [B, A]."""
    self._ops, self.logits = ops, logits

  def sample(self, random: typing.Any) -> Array:
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

  def entropy(self, random: typing.Any = None) -> Array:
    """Returns the entropy -sum_a p(a) log p(a), [B]."""
    del random
    logs = self._ops.log_softmax(self.logits)
    return -self._ops.sum(self._ops.exp(logs) * logs, -1)

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) = sum_a p(a) (log p(a) - log q(a)), [B]."""
    logs = self._ops.log_softmax(self.logits)
    difference = logs - self._ops.log_softmax(other.logits)
    return self._ops.sum(self._ops.exp(logs) * difference, -1)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """Returns (KL(self || other),), [B]: see `Gaussian.kl_parts`."""
    return (self.kl(other),)


class ProductCategorical:
  """Actions of K independent components, each a `Categorical` of N values.

    log p(a) = sum_k log p_k(a_k)

  If a component has fewer than N values, its other logits must be
  `action_masks.ILLEGAL`.
  """

  def __init__(self, ops: typing.Any, logits: Array):
    """Takes logits [B, K, N]."""
    self._ops, self._components = ops, Categorical(ops, logits)

  def sample(self, random: typing.Any) -> Array:
    """Samples actions int32 [B, K]."""
    return self._components.sample(random)

  def mode(self) -> Array:
    """Returns the most probable actions, int32 [B, K]."""
    return self._components.mode()

  def log_prob(self, action: Array) -> Array:
    """Returns log p(action) [B] of actions int [B, K]."""
    return self._ops.sum(self._components.log_prob(action), -1)

  def entropy(self, random: typing.Any = None) -> Array:
    """Returns the sum of the components' entropies, [B]."""
    return self._ops.sum(self._components.entropy(random), -1)

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) [B], the sum over the components."""
    return self._ops.sum(self._components.kl(other._components), -1)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """Returns (KL(self || other),), [B]: see `Gaussian.kl_parts`."""
    return (self.kl(other),)


class Gaussian:
  """Actions [B, A] whose components are independent and normal."""

  def __init__(self, ops: typing.Any, mean: Array, log_std: Array):
    """Takes means and log standard deviations, [B, A] each."""
    self._ops, self.mean, self.log_std = ops, mean, log_std

  def sample(self, random: typing.Any) -> Array:
    """Samples actions float32 [B, A]."""
    ops = self._ops
    e = ops.Noise(random).normal(ops.shape(self.mean))
    return self.mean + ops.exp(self.log_std) * e

  def mode(self) -> Array:
    """Returns the most probable actions [B, A]: the means."""
    return self.mean

  def log_prob(self, action: Array) -> Array:
    """Returns the log-density [B] of actions [B, A], summed over A."""
    z = (action - self.mean) * self._ops.exp(-self.log_std)
    each = -0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)
    return self._ops.sum(each, -1)

  def entropy(self, random: typing.Any = None) -> Array:
    """Returns the entropy sum_a log(std_a sqrt(2 pi e)), [B]."""
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

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """Splits KL(self || other) into parts for mean and deviation, [B] each.

    The first part is the KL to a Gaussian with the mean of `other` and the
    deviation of `self`. The second part is the KL to a Gaussian with the mean
    of `self` and the deviation of `other`. V-MPO bounds both separately:
    Abdolmaleki et al. 2018, "Relative entropy regularized policy iteration"
    (https://arxiv.org/abs/1812.02256), equations 9 and 10.
    """
    moved = Gaussian(self._ops, other.mean, self.log_std)
    scaled = Gaussian(self._ops, self.mean, other.log_std)
    return self.kl(moved), self.kl(scaled)


class TanhGaussian:
  """Distribution of tanh(x), where x has independent normal components.

  Actions are float32 [B, A] in (-1, 1).

  Haarnoja et al. 2018, "Soft actor-critic" (https://arxiv.org/abs/1801.01290),
  appendix C.
  """

  def __init__(self, ops: typing.Any, mean: Array, log_std: Array):
    """Takes means and log standard deviations of x, [B, A] each."""
    self._ops, self._normal = ops, Gaussian(ops, mean, log_std)

  def sample(self, random: typing.Any) -> Array:
    """Samples actions float32 [B, A]."""
    return self._ops.tanh(self._normal.sample(random))

  def sample_with_log_prob(self, random: typing.Any) -> tuple[Array, Array]:
    """Samples actions [B, A], and returns their log-densities [B] too.

    The densities come from x, so they are exact where tanh(x) rounds to +-1.
    """
    x = self._normal.sample(random)
    return self._ops.tanh(x), self._log_prob_before_tanh(x)

  def mode(self) -> Array:
    """Returns tanh of the means of x [B, A], the action of SAC's evaluation."""
    return self._ops.tanh(self._normal.mean)

  def log_prob(self, action: Array) -> Array:
    """Returns log-densities [B] of actions [B, A].

    Actions are clipped to [-1 + 1e-6, 1 - 1e-6], where the density is finite.
    """
    ops = self._ops
    y = ops.clip(action, -1 + 1e-6, 1 - 1e-6)
    return self._log_prob_before_tanh(0.5 * (ops.log(1 + y) - ops.log(1 - y)))

  def entropy(self, random: typing.Any = None) -> Array:
    """Estimates the entropy [B] from one sample, as it has no closed form."""
    return -self.sample_with_log_prob(random)[1]

  def kl(self, other: typing.Any) -> Array:
    """Returns KL(self || other) [B], which tanh does not change."""
    return self._normal.kl(other._normal)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """Returns the parts of `Gaussian.kl_parts`, of x."""
    return self._normal.kl_parts(other._normal)

  def _log_prob_before_tanh(self, x: Array) -> Array:
    """Returns the log-density [B] of actions tanh(x), given x [B, A].

      log p(tanh(x)) = log N(x) - sum_a log(1 - tanh(x_a)^2)

    Appendix C, equation 21, with a stable form of the last logarithm.
    """
    ops = self._ops
    log_slope = 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))
    return self._normal.log_prob(x) - ops.sum(log_slope, -1)


Distribution = Categorical | ProductCategorical | Gaussian | TanhGaussian


def make_distribution(
  kind: str, ops: typing.Any, parameters: Array, components: int = 1
) -> Distribution:
  """Makes the distribution of a policy's parameters.

  Args:
    kind: one of `KINDS`.
    ops: `numpy_ops` or `tf_ops`.
    parameters: logits [B, A] or [B, K * N], or means and log deviations
      [B, 2 A].
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
  mean, log_std = ops.split(parameters, 2)
  make = TanhGaussian if kind == "tanh_gaussian" else Gaussian
  return make(ops, mean, log_std)


def check_kind(kind: str) -> None:
  """Raises ValueError if no distribution has this name."""
  if kind not in KINDS:
    raise ValueError(
      f"kind={kind!r} is no distribution: use one of {', '.join(KINDS)}"
    )
