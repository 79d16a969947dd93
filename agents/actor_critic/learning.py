"""The learner of actor-critic algorithms with a replay."""

import typing
from collections.abc import Callable, Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import (
  batch_weights,
  core,
  dead_units,
  highest_priority,
  normalizer,
  optimizer,
  policies,
)
from slipway.agents.actor_critic import (
  batch_constrained,
  critics,
  evaluation,
  improvement,
)
from slipway.agents.networks import generative_policy, policy_network
from slipway.replay.tables import dataset as dataset_lib

# Random numbers per update: next actions, target critics, policy, proposals.
_SEEDS = 4


class ActorCriticLearner:
  """Learns critics from transitions or sequences, and a policy from critics.

  Attributes:
    steps: updates done, int64.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    policy: policy_network.PolicyNetwork | generative_policy.GenerativePolicy,
    encoder: critics.Encoder | None,
  ):
    """Makes the networks.

    Args:
      policy: declaration of the policy's network on the features.
      encoder: declaration of the network that computes the features, or None if
        they are the observations.
    """
    self._seed = config.seed
    self._learner = config.learner.copy_and_resolve_references()
    self._replay = config.replay.copy_and_resolve_references()
    self._normalizer = normalizer.Normalizer(config, spec, policies.POLICY)
    features = spec if encoder is None else encoder.spec
    self._critics = critics.make_critics(config, features, encoder)
    if isinstance(policy, generative_policy.GenerativePolicy):
      self._policy = batch_constrained.BatchConstrainedImprovement(
        config, policy, self._critics
      )
    else:
      self._policy = improvement.make_improvement(config, features, policy)
    self._policy_value = self._critics.policy_value
    if self._policy.learns_from_targets:
      self._policy_value = self._critics.target_policy_value
    self._evaluation = evaluation.make_evaluation(
      config, self._normalizer, self._critics, self._policy
    )
    self._highest = highest_priority.HighestPriority(
      config.replay.sampler == "prioritized"
    )
    # The policy's newest metrics, for updates in which it does not learn.
    self._metrics = tf.Variable(tf.zeros(len(self._policy.metrics)))
    self._dead_units = dead_units.DeadUnitsMetric()
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    """Takes a gradient step of the critics and, if it is due, of the policy."""
    seeds = [self._make_seed(i) for i in range(_SEEDS)]
    weights = batch_weights.compute(self._replay, batch, self.steps)
    factor = optimizer.rate_factor(self._learner, self.steps)
    inverse_rates = batch_weights.compute_inverse_rates(self._replay, batch)
    inputs = self._evaluation.make_inputs(
      batch.data, weights, inverse_rates, seeds[0], seeds[1]
    )
    dead = self._dead_units.update(
      self.steps, lambda: self._compute_dead_units(inputs)
    )
    found = self._critics.update(
      inputs,
      self._learner.learning_rate * factor,
      lambda features: self._policy.propose(features, seeds[3]),
    )
    metrics = {**found.metrics, dead_units.NAME: dead}
    # The control dependency delays the count until the batch is there, since
    # the iterator may end in this step.
    with tf.control_dependencies([metrics["gradient_norm"]]):
      steps = self.steps.assign_add(1)

    def improve() -> None:
      # The critics' features, of before their step, save a pass of the encoder.
      own = self._policy.update(
        found.features, inputs.action, self._policy_value, seeds[2], factor
      )
      self._metrics.assign([own[name] for name in self._policy.metrics])

    def follow() -> None:
      self._critics.follow()
      self._policy.follow()

    _run_every(self._learner.policy_period, steps, improve)
    _run_every(self._learner.target_update_period, steps, follow)
    newest = tf.unstack(self._metrics.read_value())
    metrics |= dict(zip(self._policy.metrics, newest, strict=True))
    if self._replay.sampler == "uniform":
      return core.Update(metrics)
    new = self._evaluation.compute_priorities(batch.data, found.td_error)
    return self._highest.add(core.Update(metrics, new), batch)

  def estimate_values(
    self, observation: tf.Tensor, action: tf.Tensor
  ) -> tf.Tensor | None:
    """Returns the critics' values [B]; None: the encoder is recurrent."""
    if self._critics.is_recurrent:
      return None
    normalized = self._normalizer.normalize_observations(observation)
    values = self._critics.policy_value(
      self._critics.encode(normalized), action
    )
    return self._normalizer.unscale_values(values)

  def get_variables(self) -> dict[str, np.ndarray]:
    return (
      self._critics.get_policy_variables()
      | self._policy.network.get_variables()
      | self._normalizer.get_variables()
      | self._highest.get_variables()
    )

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """State to save: networks, optimizers, metrics, steps and statistics."""
    return {
      **self._normalizer.checkpointed,
      **self._critics.checkpointed,
      **self._policy.checkpointed,
      **self._highest.checkpointed,
      "policy_metrics": self._metrics,
      dead_units.NAME: self._dead_units,
      "steps": self.steps,
    }

  def _compute_dead_units(self, inputs: critics.CriticInputs) -> tf.Tensor:
    """Returns the part [] of dead units of critics or policy, if it is more."""
    features = inputs.encode()
    return tf.maximum(
      self._critics.compute_dead_units(features, inputs.action),
      self._policy.network.compute_dead_units(features),
    )

  def _make_seed(self, index: int) -> tf.Tensor:
    """Returns a seed int32 [2] that is unique in the run."""
    step = _SEEDS * tf.cast(self.steps, tf.int32) + index
    return tf.stack([self._seed, step])


def _run_every(
  period: int, steps: typing.Any, function: Callable[[], None]
) -> None:
  # A function of every step may begin before the steps are counted. So the
  # policy's outputs are computed while the critics learn; TensorFlow lets no
  # variable be read before its last write.
  if period > 1:
    tf.cond(steps % period == 0, function, lambda: None)
  else:
    function()
