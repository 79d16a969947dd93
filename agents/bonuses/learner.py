"""A learner whose rewards are higher for steps that are new."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, normalizer, optimizer
from slipway.agents.bonuses import icm, novelty, rnd
from slipway.agents.networks import action_masks, normalization, tf_ops
from slipway.environments import arrays
from slipway.replay.items import sequences, transitions
from slipway.replay.tables import dataset as dataset_lib

# Largest absolute value of normalized observations, in standard deviations:
# Burda et al. 2019, section 2.4.
_CLIP = 5.0
# Weight of the newest batch in the recent mean of novelty, so of 100 updates.
_MEAN_RATE = 0.01

_NOVELTIES: Mapping[str, Callable[..., novelty.Novelty]] = {
  "rnd": rnd.RandomNetworkDistillation,
  "icm": icm.IntrinsicCuriosity,
}


def add_bonus(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  learner: core.Learner,
) -> core.Learner:
  """Returns a learner that adds the config's bonus to rewards, if it has one.

  Args:
    learner: learner of transitions, or of sequences without recurrent networks,
      for which rewards are inputs, too.
  """
  if config.bonus.kind == "none":
    return learner
  return BonusLearner(config, spec, learner)


class BonusLearner:
  """Learner that adds a bonus to the rewards of another learner's batches.

    r' = r + weight novelty / mean novelty

  with the mean of the last hundred or so updates. So a step that is as new as
  their average has a bonus of `bonus.weight`, in units of the rewards, however
  much the networks have learned. Reported returns have no bonus.

  An autoreset has no bonus. With prioritized sampling, the first priorities, by
  workers, are those without a bonus.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    learner: core.Learner,
  ):
    """Makes the bonus's networks, statistics and optimizer."""
    self._settings = config.bonus.copy_and_resolve_references()
    self._learner = learner
    self._splitter = action_masks.MaskSplitter(spec)
    observations = arrays.remove_mask(spec.observations)
    self._statistics = None
    if len(observations.shape) == 1:  # no image, whose pixels have one scale
      observations = specs.Array(observations.shape, np.float32)
      self._statistics = normalizer.RunningStatistics(
        observations.shape, "observations"
      )
    self._novelty = _NOVELTIES[config.bonus.kind](
      config, observations, spec.actions
    )
    # The recent mean of novelty.
    self._mean = tf.Variable(tf.constant(0.0), trainable=False)
    self._optimizer = optimizer.Optimizer(
      self._novelty.learned, optimizer.Settings()
    )

  @property
  def steps(self) -> tf.Variable:
    """Number of updates of the other learner, int64 []."""
    return self._learner.steps

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    data = batch.data
    if isinstance(data, transitions.Transition):
      steps = self._prepare(data.o_tm1, data.a_tm1, data.o_t)
      is_step = tf.fill(tf.shape(data.r_t), True)
    else:
      merge = tf_ops.merge_batch_and_time
      steps = self._prepare(
        merge(data.observation[:, :-1]),
        merge(data.action),
        merge(data.observation[:, 1:]),
      )
      is_step = tf.logical_not(data.first[:, 1:])
    weights = tf.cast(tf.reshape(is_step, [-1]), tf.float32)
    found = weights * self._novelty(steps).novelty
    self._update_mean(found, weights)
    bonus = self._settings.weight * tf.math.divide_no_nan(found, self._mean)
    loss = self._learn(steps, weights)
    update = self._learner.update(
      batch._replace(data=_add(data, tf.reshape(bonus, tf.shape(is_step))))
    )
    return update._replace(
      metrics={
        **update.metrics,
        "bonus_mean": tf.reduce_mean(bonus),
        "bonus_loss": loss,
      }
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    return self._learner.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    return {
      **self._learner.checkpointed,
      "bonus": self._novelty,
      "bonus_mean": self._mean,
      "bonus_optimizer": self._optimizer,
      **({"bonus_observations": self._statistics} if self._statistics else {}),
    }

  def _prepare(
    self, observation: tf.Tensor, action: tf.Tensor, after: tf.Tensor
  ) -> novelty.Steps:
    """Returns steps without action masks, and with normalized vectors."""
    observation, after = (
      self._splitter.split(tf_ops, x)[0] for x in (observation, after)
    )
    if self._statistics is not None:
      self._statistics.update(after)
      mean = tf.cast(self._statistics.mean, tf.float32)
      scale = self._statistics.scale
      observation, after = (
        normalization.apply(tf_ops, x, mean, scale, _CLIP)
        for x in (observation, after)
      )
    return novelty.Steps(observation, action, after)

  def _update_mean(self, found: tf.Tensor, weights: tf.Tensor) -> None:
    """Adds a batch to the recent mean, unless it has no step that counts."""
    total = tf.reduce_sum(weights)
    mean = tf.math.divide_no_nan(tf.reduce_sum(found), total)
    updates = tf.cast(self.steps, tf.float32) + 1.0
    rate = tf.sign(total) * tf.maximum(_MEAN_RATE, 1.0 / updates)
    self._mean.assign_add(rate * (mean - self._mean))

  def _learn(self, steps: novelty.Steps, weights: tf.Tensor) -> tf.Tensor:
    """Takes a gradient step per `bonus.batch_size` steps."""
    number = tf.shape(weights)[0]
    passes = tf.maximum(number // self._settings.batch_size, 1)

    def descend(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
      """Takes gradient step i, and adds its loss to the total."""
      # Steps i, i + passes, ...: a part of each rollout.
      rows = tf.range(i, number, passes)
      own = novelty.Steps(*(tf_ops.take_rows(x, rows) for x in steps))
      their = tf.gather(weights, rows)
      with tf.GradientTape() as tape:
        losses = self._novelty(own).loss
        loss = tf.math.divide_no_nan(
          tf.reduce_sum(their * losses), tf.reduce_sum(their)
        )
      self._optimizer.minimize(loss, tape, self._settings.learning_rate)
      return i + 1, total + loss

    _, total = tf.while_loop(
      lambda i, _: i < passes,
      descend,
      (tf.constant(0), tf.constant(0.0)),
      parallel_iterations=1,
    )
    return total / tf.cast(passes, tf.float32)


def _add(data: typing.Any, bonus: tf.Tensor) -> typing.Any:
  """Returns transitions or sequences with a bonus added to their rewards."""
  if isinstance(data, transitions.Transition):
    return data._replace(r_t=data.r_t + bonus)
  assert isinstance(data, sequences.Sequence)
  return data._replace(reward=data.reward + bonus)
