"""A learner whose rewards are higher for steps that are new."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, normalizer, optimizer
from slipway.agents.bonuses import embedding, icm, novelty, rnd
from slipway.agents.losses import traces
from slipway.agents.networks import action_masks, normalization, tf_ops
from slipway.environments import arrays
from slipway.replay.items import sequences, transitions
from slipway.replay.tables import dataset as dataset_lib

# Largest absolute value of normalized observations, in standard deviations:
# Burda et al. 2019, section 2.4.
_CLIP = 5.0

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

    r'_t = r_t + weight i_t / deviation(R)
    R_t  = i_t + discount R_{t-1}

  with the novelty i_t of a step, and the standard deviation of all R so far:
  Burda et al. 2019 (https://arxiv.org/abs/1810.12894), section 2.4, and its
  authors' code. So the bonus fades as the networks learn. The sums R continue
  from row to row of the batches, also beyond ends of episodes. Where rows
  follow one another in an environment, they are returns of novelty. Transitions
  of a replay are sampled at random, and their sums are of such steps.

  An autoreset has no bonus. Reported returns have none, and with prioritized
  sampling nor have the first priorities, by workers.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    learner: core.Learner,
  ):
    """Makes the bonus's networks, statistics and optimizer."""
    self._settings = config.bonus.copy_and_resolve_references()
    self._discount = config.adder.discount
    self._learner = learner
    self._splitter = action_masks.MaskSplitter(spec)
    self._observations = embedding.make_whitened_spec(
      config.network.torso, arrays.remove_mask(spec.observations)
    )
    self._statistics = normalizer.RunningStatistics(
      self._observations.shape, "observations"
    )
    self._novelty = _NOVELTIES[config.bonus.kind](
      config, self._observations, spec.actions
    )
    self._returns = normalizer.RunningStatistics((), "novelty_returns")
    # The newest R of each row.
    self._newest_returns = tf.Variable(
      tf.zeros([config.learner.batch_size]), trainable=False
    )
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
      is_step = tf.fill([tf.shape(data.r_t)[0], 1], True)
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
    self._add_returns(tf.reshape(found, tf.shape(is_step)), is_step)
    bonus = self._settings.weight * tf.minimum(
      found * self._returns.scale, normalization.CLIP
    )
    loss = self._learn(steps, weights)
    update = self._learner.update(batch._replace(data=_add(data, bonus)))
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
      "bonus_returns": self._returns,
      "bonus_newest_returns": self._newest_returns,
      "bonus_optimizer": self._optimizer,
      "bonus_observations": self._statistics,
    }

  def _prepare(
    self, observation: tf.Tensor, action: tf.Tensor, after: tf.Tensor
  ) -> novelty.Steps:
    """Returns steps whose observations have no masks, and are whitened."""
    # Each number and each pixel, to mean 0 and deviation 1: Burda et al. 2019,
    # section 2.4.
    shape = (-1, *self._observations.shape)
    observation, after = (
      tf.reshape(self._splitter.split(tf_ops, x)[0], shape)
      for x in (observation, after)
    )
    self._statistics.update(after)
    mean = tf.cast(self._statistics.mean, tf.float32)
    scale = self._statistics.scale
    factors = embedding.find_factors(self._observations)
    observation, after = (
      factors * normalization.apply(tf_ops, x, mean, scale, _CLIP)
      for x in (observation, after)
    )
    return novelty.Steps(observation, action, after)

  def _add_returns(self, found: tf.Tensor, is_step: tf.Tensor) -> None:
    """Adds the sums R of novelty [B, T] to their statistics."""
    # An autoreset leaves the sum as it is.
    decay = tf.where(is_step, self._discount, 1.0)
    before = self._newest_returns[:, None]
    first = found[:, :1] + decay[:, :1] * before
    found = tf.concat([first, found[:, 1:]], axis=1)
    backwards = traces.discounted_sums(found[:, ::-1], decay[:, ::-1])
    sums = backwards[:, ::-1]
    self._returns.update(tf.boolean_mask(sums, is_step))
    self._newest_returns.assign(sums[:, -1])

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
  """Returns transitions or sequences with bonuses [B * T] added to rewards."""
  if isinstance(data, transitions.Transition):
    return data._replace(r_t=data.r_t + bonus)
  assert isinstance(data, sequences.Sequence)
  bonus = tf.reshape(bonus, tf.shape(data.reward))
  return data._replace(reward=data.reward + bonus)
