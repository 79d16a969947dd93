"""Running statistics of observations and returns, and their normalization.

Also shifts images, where a learner wants that.
"""

import math
import typing
from collections.abc import Sequence

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import augmentation
from slipway.agents.networks import normalization, tf_ops
from slipway.replay.items import returns, sequences, transitions

# Added to variances, so that no scale is infinite; the value of gymnasium's
# NormalizeObservation.
_EPSILON = 1e-8


class RunningStatistics(tf.Module):
  """Mean and variance of all values added so far, in float64.

  Attributes:
    count: number of values added, or the sum of their weights, float64 [].
    mean: mean of the values, float64 [...]; 0 before the first.
  """

  def __init__(self, shape: Sequence[int], name: str):
    super().__init__(name=name)
    zeros = tf.zeros(shape, tf.float64)
    self.count = tf.Variable(tf.zeros((), tf.float64), trainable=False)
    self.mean = tf.Variable(zeros, trainable=False)
    self._squares = tf.Variable(zeros, trainable=False)

  @property
  def scale(self) -> tf.Tensor:
    """Reciprocal of the standard deviation, float32 [...].

    It is about 1 before the first value.
    """
    # Without values, the variance is 1 rather than a quotient of zeros.
    variance = tf.where(
      self.count > 0,
      self._squares / tf.maximum(self.count, 1.0),
      tf.ones_like(self._squares),
    )
    return tf.cast(tf.math.rsqrt(variance + _EPSILON), tf.float32)

  def update(
    self,
    values: tf.Tensor,
    is_due: tf.Tensor | bool = True,
    weights: tf.Tensor | None = None,
  ) -> None:
    """Adds a batch of values to the mean and the variance.

    Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing
    sample variances" (http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/
    CS-TR-79-773.pdf), equations 2.1:

      M := M + M_b + delta^2 n n_b / (n + n_b), delta = mean_b - mean

    with n the number of values, and M the sum of their squared distances from
    their mean; n_b, M_b and mean_b are those of the added values.

    Args:
      values: values [N, ...]; N may be 0.
      is_due: bool [], whether to add the values; otherwise nothing changes.
      weights: [N], numbers as which the values count; None: 1 each.
    """
    values = tf.cast(values, tf.float64)
    if weights is None:
      weights = tf.ones(tf.shape(values)[:1], tf.float64)
    size = tf.reduce_sum(weights)
    weights = tf.reshape(weights, [-1] + [1] * (len(values.shape) - 1))
    mean = tf.math.divide_no_nan(tf.reduce_sum(weights * values, 0), size)
    squares = tf.reduce_sum(weights * (values - mean) ** 2, 0)
    due = tf.cast(is_due, tf.float64)
    added = due * size
    total = self.count + added
    share = tf.math.divide_no_nan(added, total)
    delta = mean - self.mean
    # The size of a batch is known before it is there, and the iterator may end
    # in this step; then nothing may be counted.
    with tf.control_dependencies([squares]):
      self._squares.assign_add(due * squares + delta**2 * self.count * share)
      self.mean.assign_add(delta * share)
      self.count.assign(total)


class Normalizer(tf.Module):
  """Normalizes a learner's batches, as `config.normalization` selects.

  It also shifts images, as `config.learner.random_shift` selects.

  Learners normalize each batch with this class, so their networks have no
  normalization. Acting networks normalize observations in their first layer,
  with the variables of `get_variables`. If the config normalizes nothing,
  batches are returned unchanged, and the graph gets no operations.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    name: str = "",
  ):
    """Makes the running statistics that the config selects, all at zero.

    Args:
      name: prefix of the acting network's variables, or '' if they have none;
        see `tf_network.Network`.
    """
    super().__init__(name="normalizer")
    self._prefix = f"{name}/" if name else ""
    self._spec = spec.observations
    self._shift = config.learner.get("random_shift", 0)
    self._observations = self._returns = None
    if normalization.normalizes_observations(config):
      self._observation_shape = spec.observations.shape
      shape = normalization.normalized_shape(spec.observations)
      self._normalized_shape = shape
      self._observations = RunningStatistics(shape, "observations")
    if normalization.normalizes_rewards(config):
      self._returns = RunningStatistics((), "returns")
      # An n-step reward is a sum of n rewards.
      self._reward_clip = normalization.CLIP * config.adder.get("n_step", 1)

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    """The statistics, as an entry of `Learner.checkpointed`, or {} if none."""
    if self._observations is None and self._returns is None:
      return {}
    return {"normalizer": self}

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns the mean and scale of observations, float32 arrays by name.

    Acting networks load them as variables. Returns {} if observations are not
    normalized.
    """
    if self._observations is None:
      return {}
    return {
      self._prefix + normalization.MEAN: self._observations.mean.numpy().astype(
        np.float32
      ),
      self._prefix + normalization.SCALE: self._observations.scale.numpy(),
    }

  def normalize_transitions(
    self,
    batch: transitions.Transition,
    weights: tf.Tensor | None = None,
    seed: tf.Tensor | None = None,
  ) -> transitions.Transition:
    """Adds a batch to the statistics, then returns normalized transitions.

    The statistics of observations use `o_tm1`. Fields that the config does not
    normalize are returned unchanged.

    Args:
      weights: results [B] of `batch_weights.compute_inverse_rates`.
      seed: int32 [2], which differs between updates; None if no images are
        shifted. `o_tm1` and `o_t` have different shifts.
    """
    o_tm1, o_t = self._shift_images(seed, batch.o_tm1, batch.o_t)
    self.add_observations(o_tm1, weights=weights)
    return batch._replace(
      o_tm1=self.normalize_observations(o_tm1),
      o_t=self.normalize_observations(o_t),
      r_t=self.normalize_rewards(
        batch.r_t, batch.running_return, weights=weights
      ),
    )

  def normalize_sequences(
    self,
    batch: sequences.Sequence,
    weights: tf.Tensor | None = None,
    seed: tf.Tensor | None = None,
  ) -> sequences.Sequence:
    """Returns sequences with normalized observations and rewards.

    Also adds the running returns to the statistics, but not the observations.
    Fields that the config does not normalize are returned unchanged.

    Args:
      weights: as for `normalize_transitions`.
      seed: the same. Each observation has a shift of its own.
    """
    (observation,) = self._shift_images(seed, batch.observation)
    return batch._replace(
      observation=self.normalize_observations(observation),
      reward=self.normalize_rewards(
        batch.reward,
        batch.extras.get(returns.FIELD),
        batch.first[:, 1:],
        weights,
      ),
    )

  def add_observations(
    self,
    observations: tf.Tensor,
    is_due: tf.Tensor | bool = True,
    weights: tf.Tensor | None = None,
  ) -> None:
    """Adds observations to their statistics, if the config normalizes them.

    Args:
      observations: observations [B, ...] of transitions or sequences.
      is_due: bool [], whether to add the observations.
      weights: as for `normalize_transitions`.
    """
    if self._observations is not None:
      shape = self._normalized_shape
      # Masks and images follow what is normalized.
      size = math.prod(self._observation_shape)
      flat = tf.reshape(observations, (-1, size))[:, : math.prod(shape)]
      self._observations.update(
        tf.reshape(flat, (-1, *shape)),
        is_due,
        _repeat(weights, tf.shape(flat)[0]),
      )

  def normalize_observations(self, observations: typing.Any) -> typing.Any:
    """Returns normalized observations, float32 of the same shape.

    Returns the argument unchanged if the config does not normalize
    observations. The statistics do not change.
    """
    if self._observations is None:
      return observations
    mean = tf.cast(self._observations.mean, tf.float32)
    scale = self._observations.scale
    # Batch and time become one axis.
    flat = tf.reshape(observations, (-1, *self._observation_shape))
    normalized = normalization.apply_to_first(tf_ops, flat, mean, scale)
    return tf.reshape(normalized, tf.shape(observations))

  def normalize_rewards(
    self,
    rewards: typing.Any,
    running_returns: typing.Any,
    first: tf.Tensor | None = None,
    weights: tf.Tensor | None = None,
  ) -> typing.Any:
    """Adds running returns to the statistics, then returns normalized rewards.

    Divides rewards by the deviation of the running returns, and clips the
    quotients. Returns rewards unchanged if the config does not normalize them.
    Engstrom et al.
    2020, "Implementation matters in deep policy gradients"
    (https://arxiv.org/abs/2005.12729), appendix A.2, and gymnasium's
    NormalizeReward.

    Args:
      rewards: rewards [...].
      running_returns: running returns [...] of `returns.RunningReturns`, or
        None if rewards aren't normalized.
      first: bool [...], whether a step is an autoreset, whose running return is
        not added; None if no step is an autoreset.
      weights: as for `normalize_transitions`.
    """
    if self._returns is None:
      return rewards
    found = tf.reshape(running_returns, [-1])
    weights = _repeat(weights, tf.size(found))
    if first is not None:
      is_step = tf.reshape(tf.logical_not(first), [-1])
      found = tf.boolean_mask(found, is_step)
      weights = None if weights is None else tf.boolean_mask(weights, is_step)
    self._returns.update(found, weights=weights)
    clip = self._reward_clip
    return tf.clip_by_value(rewards * self._returns.scale, -clip, clip)

  def unscale_values(self, values: tf.Tensor) -> tf.Tensor:
    """Returns values [B] of normalized rewards as those of the rewards."""
    return values if self._returns is None else values / self._returns.scale

  def _shift_images(
    self, seed: tf.Tensor | None, *observations: tf.Tensor
  ) -> Sequence[tf.Tensor]:
    """Returns each of the observations [..., N] with its images shifted."""
    if seed is None or not self._shift:
      return observations
    # They are independent of what the seed itself is used for.
    seeds = tf.random.split(seed, len(observations))
    return [
      augmentation.random_shift(x, self._spec, self._shift, seeds[i])
      for i, x in enumerate(observations)
    ]


def _repeat(weights: tf.Tensor | None, size: tf.Tensor) -> tf.Tensor | None:
  """Returns weights [B] of sequences as those [size] of all their steps."""
  if weights is None:
    return None
  return tf.repeat(weights, size // tf.shape(weights)[0])
