"""The learner of the policy gradient family."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import (
  core,
  dead_units,
  normalizer,
  optimizer,
  policies,
)
from slipway.agents.losses import advantages as advantages_lib
from slipway.agents.networks import tf_ops
from slipway.agents.policy_gradient import models, objectives
from slipway.replay.items import sequences
from slipway.replay.tables import dataset as dataset_lib

# Updates between two measurements of dead units. They are few: of 2,048 steps
# each, a run of 1,000,000 steps has 488.
_DEAD_UNITS_PERIOD = 20


class PolicyGradientLearner:
  """Learns a policy and state values from rollouts; see `core.Learner`.

  A trainer step is an update on one batch of rollouts: one gradient step, or
  several epochs of minibatches in one graph, as in Schulman et al. 2017,
  algorithm 1. Advantages are estimated once, on the whole batch.

  Attributes:
    steps: number of updates done, int64 [].
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    self._learner = config.learner.copy_and_resolve_references()
    self._seed = config.seed
    self._normalizer = normalizer.Normalizer(config, spec, policies.POLICY)
    self._model = models.make_model(config, spec)
    self._objective = objectives.Objective(self._learner, self._model.head)
    self._dead_units = dead_units.DeadUnitsMetric(_DEAD_UNITS_PERIOD)
    self._batch_steps = config.learner.batch_size * config.adder.unroll
    self._minibatch_steps = self._learner.minibatch_size or self._batch_steps
    variables = []
    for network in self._model.networks.values():
      variables.extend(network.trainable_variables)
    self._optimizer = optimizer.Optimizer(
      variables, optimizer.Settings.from_config(self._learner)
    )
    # Gradients of the networks have no influence on the loss's own variables.
    self._own_optimizer = optimizer.Optimizer(
      self._objective.variables,
      optimizer.Settings(epsilon=self._learner.adam_epsilon),
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    # A batch is normalized with the statistics before it, which its actors used
    # too, so that ratios of probabilities start at 1. The first batch has no
    # earlier ones, and is normalized with its own.
    observation, is_first = batch.data.observation[:, :-1], self.steps == 0
    self._normalizer.add_observations(observation, is_first)
    normalized = self._normalizer.normalize_sequences(batch.data)
    # A core's inputs have the rewards that its actors saw, as they came.
    rollout = normalized._replace(reward=batch.data.reward)
    passes = self._learner.epochs * self._batch_steps // self._minibatch_steps
    learn = (
      self._learn_in_one_step if passes == 1 else self._learn_in_minibatches
    )
    dead = self._dead_units.update(
      self.steps, lambda: self._model.compute_dead_units(rollout)
    )
    metrics, steps, values = learn(rollout, normalized.reward)
    metrics[dead_units.NAME] = dead
    with tf.control_dependencies([metrics["gradient_norm"]]):
      self._normalizer.add_observations(observation, tf.logical_not(is_first))
      self.steps.assign_add(1)
    metrics["explained_variance"] = _explained_variance(
      values, steps["return"], steps["learned"]
    )
    return core.Update(metrics)

  def estimate_values(
    self, observation: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor | None:
    """Returns state values [B]; None: the network is recurrent."""
    del action
    if isinstance(self._model, models.RecurrentModel):
      return None
    normalized = self._normalizer.normalize_observations(observation)
    _, values = self._model.evaluate({"observation": normalized})
    return self._normalizer.unscale_values(values)

  def get_variables(self) -> dict[str, np.ndarray]:
    return self._model.get_variables() | self._normalizer.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    return {
      **self._normalizer.checkpointed,
      **self._model.networks,
      **self._objective.checkpointed,
      "optimizer": self._optimizer,
      **(
        {"objective_optimizer": self._own_optimizer}
        if self._objective.variables
        else {}
      ),
      dead_units.NAME: self._dead_units,
      "steps": self.steps,
    }

  def _learn_in_one_step(
    self, rollout: sequences.Sequence, reward: tf.Tensor
  ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]:
    with tf.GradientTape(persistent=True) as tape:
      parameters, values = self._model.unroll(rollout)
      steps = self._estimate_targets(rollout, reward, parameters, values)
      flat = {name: tf_ops.merge_batch_and_time(x) for name, x in steps.items()}
      before = tf_ops.merge_batch_and_time(values[:, :-1])
      loss, metrics = self._objective(
        flat,
        (tf_ops.merge_batch_and_time(parameters[:, :-1]), before),
        self._decay_factor,
        self._make_seed(0),
      )
    metrics["gradient_norm"] = self._minimize(loss, tape)
    return metrics, flat, before

  def _learn_in_minibatches(
    self, rollout: sequences.Sequence, reward: tf.Tensor
  ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]:
    """Takes one gradient step per minibatch, for several epochs."""
    parameters, values = self._model.unroll(rollout)
    estimated = self._estimate_targets(rollout, reward, parameters, values)
    units = self._model.split_into_units(rollout)
    steps_per_minibatch_unit = self._model.steps_per_minibatch_unit
    count, size = (
      self._batch_steps // steps_per_minibatch_unit,
      self._minibatch_steps // steps_per_minibatch_unit,
    )
    minibatches = count // size
    # Each estimate as [number of units, steps per unit, ...].
    steps = {
      name: tf.reshape(x, (count, steps_per_minibatch_unit, *x.shape[2:]))
      for name, x in estimated.items()
    }
    decay_factor, names = self._decay_factor, list[str]()

    def minibatch(i, order, sums, _):
      """Takes gradient step i; adds its metrics to `sums`."""
      if minibatches > 1:
        order = tf.cond(
          i % minibatches == 0, lambda: self._shuffle(count, i), lambda: order
        )
      # A slice of a static size: the graph then computes no shapes.
      chosen = tf.slice(order, [(i % minibatches) * size], [size])

      def choose(x: tf.Tensor) -> tf.Tensor:
        """Returns the rows of x that belong to the minibatch."""
        return tf_ops.take_rows(x, chosen) if minibatches > 1 else x

      own = {
        name: tf_ops.merge_batch_and_time(choose(x))
        for name, x in steps.items()
      }
      with tf.GradientTape(persistent=True) as tape:
        loss, metrics = self._objective(
          own,
          self._model.evaluate({k: choose(x) for k, x in units.items()}),
          decay_factor,
          self._make_seed(i),
        )
      metrics["gradient_norm"] = self._minimize(loss, tape)
      names[:] = metrics
      new = tf.stack(list(metrics.values()))
      return i + 1, order, sums + new, metrics["kl"]

    total = self._learner.epochs * minibatches
    limit = self._learner.kl_limit
    done, _, sums, _ = tf.while_loop(
      lambda i, order, sums, kl: (i < total) & ((kl <= limit) | (limit == 0)),
      minibatch,
      (
        tf.constant(0),
        tf.zeros([count], tf.int32),
        tf.zeros([len(self._objective.metrics) + 1]),
        tf.constant(0.0),
      ),
      parallel_iterations=1,
    )
    means = tf.unstack(sums / tf.cast(done, tf.float32))
    flat = {
      name: tf_ops.merge_batch_and_time(x) for name, x in estimated.items()
    }
    return (
      dict(zip(names, means, strict=True)),
      flat,
      tf_ops.merge_batch_and_time(values[:, :-1]),
    )

  def _estimate_targets(
    self,
    rollout: sequences.Sequence,
    reward: tf.Tensor,
    parameters: tf.Tensor,
    values: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    """Returns the inputs `steps` of the objective, [B, T, ...] each by name."""
    settings = self._learner
    given = (reward, rollout.discount, rollout.ended, values)
    behaviour = rollout.extras[policies.LOG_PROB]
    # Autoresets are no steps of an episode, so nothing is learned from them.
    learned = 1.0 - tf.cast(rollout.first[:, 1:], tf.float32)
    if settings.advantage_estimator == "vtrace":
      policy = self._model.head.distribution(
        tf_ops, tf_ops.merge_batch_and_time(parameters[:, :-1])
      )
      log_prob = policy.log_prob(tf_ops.merge_batch_and_time(rollout.action))
      found, rho = advantages_lib.vtrace(
        *given,
        tf.reshape(log_prob, tf.shape(behaviour)) - behaviour,
        settings.gae_lambda,
        settings.max_rho,
        settings.max_c,
      )
      if settings.policy_loss == "policy_gradient":
        found = found._replace(advantages=rho * found.advantages)
    else:
      found = advantages_lib.generalized_advantages(*given, settings.gae_lambda)
    return {
      "action": rollout.action,
      "old_log_prob": behaviour,
      "behaviour": rollout.extras[policies.PARAMETERS],
      "advantage": found.advantages,
      "return": found.returns,
      "old_value": tf.stop_gradient(values[:, :-1]),
      "learned": learned,
    }

  def _minimize(self, loss: tf.Tensor, tape: tf.GradientTape) -> tf.Tensor:
    """Takes one gradient step; returns the gradient's norm []."""
    rate = self._learner.learning_rate * optimizer.rate_factor(
      self._learner, self.steps
    )
    norm = self._optimizer.minimize(loss, tape, rate)
    if self._objective.variables:
      self._own_optimizer.minimize(loss, tape, rate)
    return norm

  @property
  def _decay_factor(self) -> tf.Tensor:
    """Factor [] of learning rate and clip range."""
    return optimizer.decay_factor(self._learner, self.steps)

  def _make_seed(self, i: int | tf.Tensor) -> tf.Tensor:
    """Returns a seed int32 [2] for minibatch i of the current update."""
    minibatches = self._batch_steps // self._minibatch_steps
    before = tf.cast(self.steps, tf.int32) * self._learner.epochs * minibatches
    return tf.stack([self._seed, before + i])

  def _shuffle(self, count: int, i: tf.Tensor) -> tf.Tensor:
    """Returns a random order int32 [count] of units."""
    return tf.argsort(tf.random.stateless_uniform([count], self._make_seed(i)))


def _explained_variance(
  values: tf.Tensor, targets: tf.Tensor, learned: tf.Tensor
) -> tf.Tensor:
  """Returns the explained variance [] of values."""
  # 1 - Var(targets - values) / Var(targets)
  total = tf.reduce_sum(learned)
  count = tf.maximum(total, 1.0)

  def variance(x: tf.Tensor) -> tf.Tensor:
    """Returns the variance [] of x [N] over the steps that count."""
    mean = tf.reduce_sum(learned * x) / count
    return tf.reduce_sum(learned * (x - mean) ** 2) / count

  unexplained = variance(targets - values) / (variance(targets) + 1e-8)
  return tf.sign(total) * (1.0 - unexplained)
