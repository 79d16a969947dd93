"""Improvement: how a policy learns from critics, and what the critics expect.

The next actions of the critics' targets come from the same policy. Its inputs
are the critics' features; see `critics.Critics`.
"""

import abc
import math
import typing
from collections.abc import Callable, Sequence

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import optimizer, policies, targets
from slipway.agents.actor_critic import critics
from slipway.agents.losses import actor_critic as losses
from slipway.agents.losses import offline
from slipway.agents.networks import (
  action_masks,
  critic_network,
  distributions,
  generative_policy,
  policy_network,
  tf_network,
  tf_ops,
)
from slipway.environments import arrays

# Smallest size of an action in [-1, 1] that counts as being at its limit.
_SATURATION = 0.98

# Returns the values [B] of features [B, ...] and actions [B, A].
ValueFunction = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class NextAction(typing.NamedTuple):
  """The next actions of a batch, or their value.

  Attributes:
    action: N actions for each observation, [N, B, A]; None with a `value`.
    cost: what the critics' targets subtract from the actions' values, such as
      alpha log pi(action | o), [B], or None.
    value: the expected value itself, [B], in place of actions; or None.
  """

  action: typing.Any
  cost: tf.Tensor | None = None
  value: tf.Tensor | None = None


class Improvement(abc.ABC):
  """A policy with its loss and optimizer, and often a target network.

  Attributes:
    has_target: whether a target network chooses the next actions. Its inputs
      are then features by the encoder's moving average, `encode_for_targets`.
    learns_from_targets: whether the values that the policy maximises are those
      of the target critics.
    network: the policy that learns.
    metrics: names of the scalars that `update` returns.
  """

  has_target = True
  learns_from_targets = False
  metrics: Sequence[str]

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    policy: policy_network.PolicyNetwork | generative_policy.GenerativePolicy,
  ):
    """Makes policy and target, if there is one, with equal variables."""
    self._learner = config.learner.copy_and_resolve_references()
    self._rate = (
      self._learner.policy_learning_rate or self._learner.learning_rate
    )
    self._head = policy.head
    self.network, *self._targets = (
      tf_network.Network(policy, config.seed, policies.POLICY)
      for _ in range(1 + self.has_target)
    )
    self._optimizer = self._make_optimizer(
      self.network.trainable_variables, "policy"
    )

  @abc.abstractmethod
  def next_action(self, features: tf.Tensor, seed: tf.Tensor) -> NextAction:
    """Returns the actions in o_t that the critics' targets expect."""

  @abc.abstractmethod
  def update(
    self,
    features: tf.Tensor,
    action: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    """Takes a gradient step towards higher values; returns `metrics`.

    Args:
      action: the batch's own actions, [B, ...].
      factor: factor of the learning rates, [].
    """

  def propose(
    self, features: tf.Tensor, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Samples actions, half of them uniformly, and half of a tanh-Gaussian.

    Returns:
      `learner.cql_actions` of each, [2 N, B, A], and log-densities [2 N, B].
    """
    count = self._learner.cql_actions
    parameters = tf.tile(self.network(features), [count, 1])
    policy = self._make_distribution(parameters)
    action, log_prob = policy.sample_with_log_prob(seed)
    uniform = 2.0 * tf_ops.Noise(seed + 1).uniform(tf.shape(action)) - 1.0
    size = typing.cast(int, action.shape[-1])
    density = tf.fill(tf.shape(log_prob), -size * math.log(2.0))
    shape = (2 * count, -1)
    return (
      tf.reshape(tf.concat([uniform, action], axis=0), (*shape, size)),
      tf.reshape(tf.concat([density, log_prob], axis=0), shape),
    )

  def log_prob(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns log-densities [B] of actions [B, A], by the target if any."""
    network = (*self._targets, self.network)[0]
    return self._make_distribution(network(features)).log_prob(action)

  def follow(self) -> None:
    """Moves the target network, if there is one, towards the policy."""
    for target in self._targets:
      targets.soft_update(
        target.trainable_variables,
        self.network.trainable_variables,
        self._learner.tau,
      )

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    return {
      "policy": self.network,
      **({"target_policy": self._target} if self._targets else {}),
      "policy_optimizer": self._optimizer,
    }

  @property
  def _target(self) -> tf_network.Network:
    return self._targets[0]

  def _make_distribution(self, parameters: tf.Tensor) -> typing.Any:
    """Returns the distributions of actions with parameters [B, P]."""
    return self._head.distribution(tf_ops, parameters)

  def _sample_each(
    self,
    parameters: tf.Tensor,
    make_distribution: Callable[[tf.Tensor], typing.Any],
    seed: tf.Tensor,
  ) -> tf.Tensor:
    """Returns N samples [N, B, A] of each distribution, given [B, P]."""
    count = self._learner.action_samples
    repeated = make_distribution(tf.tile(parameters, [count, 1]))
    samples = repeated.sample(seed)
    return tf.reshape(samples, [count, -1, samples.shape[-1]])

  def _make_optimizer(
    self, variables: Sequence[tf.Variable], name: str
  ) -> optimizer.Optimizer:
    settings = optimizer.Settings.from_config(self._learner)
    return optimizer.Optimizer(variables, settings, name)


class SoftImprovement(Improvement):
  """A policy that is rewarded for entropy, without a target network: SAC.

  It is a tanh-Gaussian, or categorical for discrete actions. Then probabilities
  take the place of actions, and expectations that of samples; see
  `critics.DiscreteCritics`.
  """

  has_target = False
  metrics = ("policy_loss", "entropy", "temperature", "saturated_actions")

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    policy: policy_network.PolicyNetwork,
  ):
    """Makes the policy and the temperature."""
    super().__init__(config, policy)
    self._log_temperature = tf.Variable(tf.math.log(self._learner.temperature))
    self._is_discrete = arrays.component_sizes(spec.actions) is not None
    self._dimensions = math.prod(spec.actions.shape)
    self._temperature_optimizer = self._make_optimizer(
      [self._log_temperature], "temperature"
    )

  def next_action(self, features: tf.Tensor, seed: tf.Tensor) -> NextAction:
    """Samples actions; see `Improvement`."""
    policy = self._make_distribution(self.network(features))
    action, log_prob = self._sample(policy, seed)
    return NextAction(action[None], tf.exp(self._log_temperature) * log_prob)

  def update(
    self,
    features: tf.Tensor,
    action: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    del action
    temperature = tf.exp(self._log_temperature)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      # Gradients flow through the critics' inputs, not into their weights.
      tape.watch(self.network.trainable_variables)
      policy = self._make_distribution(self.network(features))
      action, log_prob = self._sample(policy, seed)
      loss = tf.reduce_mean(
        losses.soft_policy_loss(value(features, action), log_prob, temperature)
      )
    self._optimizer.minimize(loss, tape, self._rate * factor)
    with tf.GradientTape() as tape:
      temperature_loss = tf.reduce_mean(
        losses.temperature_loss(
          self._log_temperature, log_prob, self._compute_target_entropy(policy)
        )
      )
    rate = (
      self._learner.temperature_learning_rate or self._learner.learning_rate
    )
    self._temperature_optimizer.minimize(temperature_loss, tape, rate * factor)
    return {
      "policy_loss": loss,
      "entropy": -tf.reduce_mean(log_prob),
      "temperature": temperature,
      "saturated_actions": _measure_saturation(action),
    }

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    return {
      **super().checkpointed,
      "log_temperature": self._log_temperature,
      "temperature_optimizer": self._temperature_optimizer,
    }

  def _compute_target_entropy(self, policy: typing.Any) -> float | tf.Tensor:
    if not self._is_discrete:
      return -float(self._dimensions)
    # Probabilities of legal actions may round to 0, but their logits are far
    # above those of illegal ones.
    legal = tf.math.count_nonzero(
      policy.logits > 0.5 * action_masks.ILLEGAL, axis=-1, dtype=tf.float32
    )
    return self._learner.discrete_entropy * tf.math.log(legal)

  def _sample(
    self, policy: typing.Any, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Samples actions [B, A] of a policy; also returns log-densities [B]."""
    if self._is_discrete:
      return tf.nn.softmax(policy.logits), -policy.entropy()
    return policy.sample_with_log_prob(seed)


class DeterministicImprovement(Improvement):
  """A deterministic policy with a target network: DDPG, TD3 and D4PG.

  With `learner.bc_weight` it stays near the batch's actions: TD3+BC.
  """

  metrics = ("policy_loss", "saturated_actions")

  def next_action(self, features: tf.Tensor, seed: tf.Tensor) -> NextAction:
    """Returns the target policy's actions, with TD3's noise if there is any."""
    action = self._target(features)
    if self._learner.target_noise:
      action = losses.smooth_action(
        action,
        tf_ops.Noise(seed).normal(tf.shape(action)),
        self._learner.target_noise,
        self._learner.target_noise_clip,
      )
    return NextAction(action[None], None)

  def update(
    self,
    features: tf.Tensor,
    action: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    del seed
    weight = self._learner.bc_weight
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      # Gradients flow through the critics' inputs, not into their weights.
      tape.watch(self.network.trainable_variables)
      chosen = self.network(features)
      loss = -value(features, chosen)
      if weight:
        error = offline.imitation_error(chosen, action)
        loss = offline.behaviour_regularized_loss(-loss, error, weight)
      loss = tf.reduce_mean(loss)
    self._optimizer.minimize(loss, tape, self._rate * factor)
    return {
      "policy_loss": loss,
      "saturated_actions": _measure_saturation(chosen),
    }


class ConstrainedImprovement(Improvement):
  """A tanh-Gaussian policy that stays close to its target network: MPO.

  The values of its samples are those of the target critics, as in Acme. So
  policy, samples and values are of one iteration.
  """

  learns_from_targets = True
  metrics = ("policy_loss", "kl", "temperature", "kl_multiplier")

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    policy: policy_network.PolicyNetwork,
  ):
    """Makes policy, target, temperature and multipliers."""
    super().__init__(config, policy)
    learner = self._learner
    components = float(np.prod(spec.actions.shape))
    # Bounds for the mean and the deviation of all components together.
    self._kl_bounds = components * np.array(
      (learner.kl_bound, learner.std_kl_bound), np.float32
    )
    self._temperature = optimizer.Dual(learner.temperature)
    self._multipliers = optimizer.Dual(
      [learner.kl_multiplier, learner.std_kl_multiplier]
    )
    self._dual_optimizer = self._make_optimizer(
      [self._temperature.variable, self._multipliers.variable], "dual"
    )

  def next_action(self, features: tf.Tensor, seed: tf.Tensor) -> NextAction:
    """Samples actions of the target policy; see `Improvement`."""
    samples = self._sample(self._target(features), seed)
    return NextAction(tf.tanh(samples), None)

  def update(
    self,
    features: tf.Tensor,
    action: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    del action
    learner = self._learner
    parameters = self._target(features)
    samples = self._sample(parameters, seed)
    target = self._make_normal(parameters)
    values = value(*critics.flatten_samples(features, tf.tanh(samples)))
    values = tf.reshape(values, [learner.action_samples, -1])
    with tf.GradientTape(persistent=True) as tape:
      temperature = self._temperature()
      multipliers = self._multipliers()
      # Densities before tanh have the gradients and divergences of those of the
      # actions, but are exact where tanh rounds to +-1.
      policy = self._make_normal(self.network(features))
      parts, kl = distributions.kl_parts(target, policy)
      mpo = losses.mpo(
        values,
        tf.stack([part.log_prob(samples) for part in parts], axis=-1),
        tf.stack(kl, axis=-1),
        temperature,
        multipliers,
        learner.temperature_bound,
        tf.constant(self._kl_bounds),
      )
      # The KL loss has gradients for the policy and for the multipliers.
      policy_loss = mpo.policy_loss + mpo.kl_loss
      dual_loss = mpo.temperature_loss + mpo.kl_loss
    self._optimizer.minimize(policy_loss, tape, self._rate * factor)
    self._dual_optimizer.minimize(dual_loss, tape, learner.dual_learning_rate)
    return {
      "policy_loss": mpo.policy_loss,
      "kl": tf.reduce_mean(target.kl(policy)),
      "temperature": temperature,
      "kl_multiplier": tf.reduce_mean(multipliers),
    }

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    return {
      **super().checkpointed,
      "temperature": self._temperature,
      "multipliers": self._multipliers,
      "dual_optimizer": self._dual_optimizer,
    }

  def _sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Samples N actions before tanh [N, B, A], given parameters [B, 2 A]."""
    return self._sample_each(parameters, self._make_normal, seed)

  def _make_normal(self, parameters: tf.Tensor) -> distributions.Gaussian:
    """Returns the distributions before tanh of parameters [B, 2 A]."""
    return self._make_distribution(parameters).normal


class AdvantageWeightedImprovement(Improvement):
  """A policy that imitates the better ones of the batch's actions: CRR.

  An action is better the further its value is above the mean value of the
  policy's own actions. The policy is a tanh-Gaussian, or categorical; then the
  mean is exact, as for `SoftImprovement`.
  """

  metrics = ("policy_loss", "advantage", "weight")

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    policy: policy_network.PolicyNetwork,
  ):
    """Makes the policy and, if it has one, its target."""
    super().__init__(config, policy)
    sizes = arrays.component_sizes(spec.actions)
    self._num_actions = None if sizes is None else sizes[0]

  def next_action(self, features: tf.Tensor, seed: tf.Tensor) -> NextAction:
    """Samples actions of the target policy; see `Improvement`."""
    return NextAction(self._sample(self._target(features), seed))

  def update(
    self,
    features: tf.Tensor,
    action: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> dict[str, tf.Tensor]:
    learner, given = self._learner, action
    if self._num_actions is not None:
      given = tf.one_hot(action, self._num_actions)
    advantage = self._compute_advantage(
      features, value(features, given), value, seed, factor
    )
    weight = offline.advantage_weights(
      advantage,
      learner.advantage_weight,
      learner.advantage_temperature,
      learner.max_weight,
    )
    with tf.GradientTape() as tape:
      policy = self._make_distribution(self.network(features))
      loss = -tf.reduce_mean(weight * policy.log_prob(action))
    self._optimizer.minimize(loss, tape, self._rate * factor)
    return {
      "policy_loss": loss,
      "advantage": tf.reduce_mean(advantage),
      "weight": tf.reduce_mean(weight),
    }

  def _compute_advantage(
    self,
    features: tf.Tensor,
    values: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> tf.Tensor:
    """Returns by how much actions of `values` [B] are better than others."""
    del factor
    samples = self._sample(self.network(features), seed)
    others = value(*critics.flatten_samples(features, samples))
    others = tf.reshape(others, [samples.shape[0], -1])
    return values - tf.reduce_mean(others, axis=0)

  def _sample(self, parameters: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns N actions [N, B, A], or probabilities [1, B, A]."""
    if self._num_actions is not None:
      return tf.nn.softmax(parameters)[None]
    return self._sample_each(parameters, self._make_distribution, seed)


class ExpectileImprovement(AdvantageWeightedImprovement):
  """The same policy with a network of state values, for both uses: IQL.

  The values are expectiles of those that the target critics give to the batch's
  actions. So no other action is ever valued.
  """

  has_target = False
  learns_from_targets = True

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    policy: policy_network.PolicyNetwork,
  ):
    """Makes policy and state values."""
    super().__init__(config, spec, policy)
    settings = critics.make_settings(config.network)
    self._value = tf_network.Network(
      critic_network.StateCriticNetwork(spec, settings), config.seed, "value"
    )
    self._value_optimizer = self._make_optimizer(
      self._value.trainable_variables, "value"
    )

  def next_action(self, features: tf.Tensor, seed: tf.Tensor) -> NextAction:
    """Returns the state values of o_t; see `Improvement`."""
    del seed
    return NextAction(None, value=self._value(features)[:, 0, 0])

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    return {
      **super().checkpointed,
      "value": self._value,
      "value_optimizer": self._value_optimizer,
    }

  def _compute_advantage(
    self,
    features: tf.Tensor,
    values: tf.Tensor,
    value: ValueFunction,
    seed: tf.Tensor,
    factor: tf.Tensor,
  ) -> tf.Tensor:
    """Learns the state values, and returns the advantages before that."""
    del value, seed
    learner = self._learner
    with tf.GradientTape() as tape:
      own = self._value(features)[:, 0, 0]
      loss = tf.reduce_mean(
        offline.expectile_loss(own, values, learner.expectile)
      )
    rate = learner.learning_rate * factor
    self._value_optimizer.minimize(loss, tape, rate)
    return values - own


def _measure_saturation(action: tf.Tensor) -> tf.Tensor:
  """Returns the part [] of actions' components that are at their limits."""
  is_saturated = tf.abs(action) > _SATURATION
  return tf.reduce_mean(tf.cast(is_saturated, tf.float32))


def make_improvement(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  policy: policy_network.PolicyNetwork,
) -> Improvement:
  """Makes the improvement of `config.learner.policy_loss`.

  Args:
    spec: spec of one environment, with the policy's features in place of
      observations; actions may be discrete for 'soft' and 'advantage_weighted'.
    policy: declaration of the policy's network: deterministic, a tanh-Gaussian
      or categorical.
  """
  if config.learner.policy_loss == "deterministic":
    return DeterministicImprovement(config, policy)
  if config.learner.policy_loss == "constrained":
    return ConstrainedImprovement(config, spec, policy)
  if config.learner.policy_loss == "advantage_weighted":
    if config.learner.critic_target == "expectile":
      return ExpectileImprovement(config, spec, policy)
    return AdvantageWeightedImprovement(config, spec, policy)
  return SoftImprovement(config, spec, policy)
