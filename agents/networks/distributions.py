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
KINDS = ("categorical", "product_categorical", *CONTINUOUS)


class Categorical:
  """One of A actions, with probabilities softmax(logits)."""

  def __init__(self, ops: typing.Any, logits: Array):
    """Takes logits [B, A]."""
    self._ops, self.logits = ops, logits

  def sample(self, random: typing.Any) -> Array:
    """Actions int32 [B], by the Gumbel-max trick."""
    ops = self._ops
    u = ops.Noise(random).uniform(ops.shape(self.logits))
    u = ops.maximum(u, np.finfo(np.float32).tiny)
    return ops.argmax(self.logits - ops.log(-ops.log(u)))

  def mode(self) -> Array:
    """The most probable actions, int32 [B]."""
    return self._ops.argmax(self.logits)

  def log_prob(self, action: Array) -> Array:
    """log p(action) [B] of actions int [B]."""
    logs = self._ops.log_softmax(self.logits)
    chosen = self._ops.one_hot(action, self.logits.shape[-1])
    return self._ops.sum(chosen * logs, -1)

  def entropy(self, random: typing.Any = None) -> Array:
    """-sum_a p(a) log p(a), [B]."""
    del random
    logs = self._ops.log_softmax(self.logits)
    return -self._ops.sum(self._ops.exp(logs) * logs, -1)

  def kl(self, other: typing.Any) -> Array:
    """KL(self || other) = sum_a p(a) (log p(a) - log q(a)), [B]."""
    logs = self._ops.log_softmax(self.logits)
    difference = logs - self._ops.log_softmax(other.logits)
    return self._ops.sum(self._ops.exp(logs) * difference, -1)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """KL(self || other) as one part, [B]."""
    return (self.kl(other),)


class ProductCategorical:
  """Actions of K independent components, each a `Categorical` of N values.

    log p(a) = sum_k log p_k(a_k)

  Components of fewer values have logits of `action_masks.ILLEGAL` beyond them.
  """

  def __init__(self, ops: typing.Any, logits: Array):
    """Takes logits [B, K, N]."""
    self._ops, self._components = ops, Categorical(ops, logits)

  def sample(self, random: typing.Any) -> Array:
    """Actions int32 [B, K]."""
    return self._components.sample(random)

  def mode(self) -> Array:
    """The most probable actions, int32 [B, K]."""
    return self._components.mode()

  def log_prob(self, action: Array) -> Array:
    """log p(action) [B] of actions int [B, K]."""
    return self._ops.sum(self._components.log_prob(action), -1)

  def entropy(self, random: typing.Any = None) -> Array:
    """The sum of the components' entropies, [B]."""
    return self._ops.sum(self._components.entropy(random), -1)

  def kl(self, other: typing.Any) -> Array:
    """The sum of the components' divergences, [B]."""
    return self._ops.sum(self._components.kl(other._components), -1)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """KL(self || other) as one part, [B]."""
    return (self.kl(other),)


class Gaussian:
  """Independent normal actions [B, A]."""

  def __init__(self, ops: typing.Any, mean: Array, log_std: Array):
    """Takes means and logarithms of deviations, [B, A] each."""
    self._ops, self.mean, self.log_std = ops, mean, log_std

  def sample(self, random: typing.Any) -> Array:
    """Actions float32 [B, A]."""
    ops = self._ops
    e = ops.Noise(random).normal(ops.shape(self.mean))
    return self.mean + ops.exp(self.log_std) * e

  def mode(self) -> Array:
    """The most probable actions [B, A]: the means."""
    return self.mean

  def log_prob(self, action: Array) -> Array:
    """Log-density [B] of actions [B, A], summed over A."""
    z = (action - self.mean) * self._ops.exp(-self.log_std)
    each = -0.5 * z * z - self.log_std - 0.5 * math.log(2 * math.pi)
    return self._ops.sum(each, -1)

  def entropy(self, random: typing.Any = None) -> Array:
    """sum_a log(std_a sqrt(2 pi e)), [B]."""
    del random
    return self._ops.sum(self.log_std + 0.5 * (1 + math.log(2 * math.pi)), -1)

  def kl(self, other: typing.Any) -> Array:
    """KL(self || other), [B]: summed over A.

    log(s' / s) + (s^2 + (m - m')^2) / (2 s'^2) - 1/2
    """
    ops = self._ops
    ratio = self.log_std - other.log_std
    z = (self.mean - other.mean) * ops.exp(-other.log_std)
    each = 0.5 * (ops.exp(2.0 * ratio) + z * z - 1.0) - ratio
    return ops.sum(each, -1)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """The divergence of the means, and that of the deviations, [B] each.

    The other one's deviations, and the other one's means, are set to its own:
    Abdolmaleki et al. 2018, "Relative entropy regularized policy iteration"
    (https://arxiv.org/abs/1812.02256), equations 9 and 10.
    """
    moved = Gaussian(self._ops, other.mean, self.log_std)
    scaled = Gaussian(self._ops, self.mean, other.log_std)
    return self.kl(moved), self.kl(scaled)


class TanhGaussian:
  """Distribution of tanh(x), x independently normal: actions [B, A] in (-1, 1).

  Haarnoja et al. 2018, "Soft actor-critic" (https://arxiv.org/abs/1801.01290),
  appendix C.
  """

  def __init__(self, ops: typing.Any, mean: Array, log_std: Array):
    """Takes the means and log standard deviations of x, [B, A] each."""
    self._ops, self._normal = ops, Gaussian(ops, mean, log_std)

  def sample(self, random: typing.Any) -> Array:
    """Actions float32 [B, A]."""
    return self._ops.tanh(self._normal.sample(random))

  def sample_with_log_prob(self, random: typing.Any) -> tuple[Array, Array]:
    """Actions [B, A] and log-densities [B], stable where tanh saturates."""
    x = self._normal.sample(random)
    return self._ops.tanh(x), self._log_prob_before_tanh(x)

  def mode(self) -> Array:
    """tanh of the means [B, A], as SAC's evaluation acts."""
    return self._ops.tanh(self._normal.mean)

  def log_prob(self, action: Array) -> Array:
    """Log-density [B] of actions [B, A], which are clipped to +-(1 - 1e-6)."""
    ops = self._ops
    y = ops.clip(action, -1 + 1e-6, 1 - 1e-6)
    return self._log_prob_before_tanh(0.5 * (ops.log(1 + y) - ops.log(1 - y)))

  def entropy(self, random: typing.Any = None) -> Array:
    """An estimate from one sample, [B]: the entropy has no closed form."""
    return -self.sample_with_log_prob(random)[1]

  def kl(self, other: typing.Any) -> Array:
    """KL(self || other), [B]: equal to the KL of the distributions of x."""
    return self._normal.kl(other._normal)

  def kl_parts(self, other: typing.Any) -> tuple[Array, ...]:
    """See `Gaussian.kl_parts`."""
    return self._normal.kl_parts(other._normal)

  def _log_prob_before_tanh(self, x: Array) -> Array:
    """Appendix C, equation 21, with the stable form of log(1 - tanh(x)^2)."""
    ops = self._ops
    slope = 2.0 * (math.log(2.0) - x - ops.softplus(-2.0 * x))
    return self._normal.log_prob(x) - ops.sum(slope, -1)


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
    components: K, of 'product_categorical'.

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
