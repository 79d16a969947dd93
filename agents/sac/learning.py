"""The learner of SAC."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, normalizer, optimizer, policies, targets
from slipway.agents.losses import soft_actor_critic
from slipway.agents.networks import actor_critic, tf_network, tf_ops
from slipway.replay.items import transitions
from slipway.replay.tables import dataset as dataset_lib

_NUM_CRITICS = 2  # number of critics: Haarnoja et al. 2018, section 6
# Number of times that an update samples actions: for o_t and for o_tm1.
_SAMPLES_PER_UPDATE = 2


class SACLearner:
  """Learner of soft actor-critic; see `core.Learner`.

  Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"
  (https://arxiv.org/abs/1812.05905), algorithm 1. Critics, policy and
  temperature have a loss and an optimizer each. The target critics are moving
  averages of the critics.

  Attributes:
    steps: number of updates done, int64 [].
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    policy: actor_critic.PolicyNetwork,
  ):
    """Makes the networks, the temperature and the optimizers.

    Args:
      config: the whole config.
      spec: spec of an environment with continuous actions.
      policy: declaration of the policy's network, a tanh-Gaussian.
    """
    learner = self._learner = config.learner.copy_and_resolve_references()
    self._seed = config.seed
    self._normalizer = normalizer.Normalizer(config, spec, policies.POLICY)
    self._declaration = policy
    self._policy = tf_network.Network(
      self._declaration, config.seed, policies.POLICY
    )
    critic = actor_critic.CriticNetwork(spec, config.network.hidden_sizes)
    names = [f"critic_{i}" for i in range(_NUM_CRITICS)]
    self._critics, self._targets = (
      [tf_network.Network(critic, config.seed, name) for name in names]
      for _ in range(2)
    )
    self._log_temperature = tf.Variable(tf.math.log(learner.temperature))
    # Minus the number of action dimensions: appendix D.
    self._target_entropy = -float(np.prod(spec.actions.shape))
    self._critic_variables = _get_variables(self._critics)

    def make_optimizer(variables, name):
      """Makes the optimizer `name` of the variables of one loss."""
      return optimizer.Optimizer(
        variables, learner.adam_epsilon, learner.max_gradient_norm, name
      )

    self._critic_optimizer = make_optimizer(self._critic_variables, "critics")
    self._policy_optimizer = make_optimizer(
      self._policy.trainable_variables, "policy"
    )
    self._temperature_optimizer = make_optimizer(
      [self._log_temperature], "temperature"
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    """Takes one gradient step per loss, on a batch of transitions.

    The result has no priorities; see `core.Learner`.
    """
    data: transitions.Transition = self._normalizer.normalize_transitions(
      batch.data
    )
    rate = self._learner.learning_rate
    temperature = tf.exp(self._log_temperature)

    next_action, next_log_prob = self._sample(data.o_t, 0)
    target = soft_actor_critic.soft_target(
      data.r_t,
      data.discount_t,
      _stack_values(self._targets, data.o_t, next_action),
      next_log_prob,
      temperature,
    )
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self._critic_variables)
      q_tm1 = _stack_values(self._critics, data.o_tm1, data.a_tm1)
      critic_loss = tf.reduce_mean(
        soft_actor_critic.critic_loss(q_tm1, target).loss
      )
    norm = self._critic_optimizer.minimize(critic_loss, tape, rate)

    with tf.GradientTape(watch_accessed_variables=False) as tape:
      # Gradients flow through the critics' inputs, not into their weights.
      tape.watch(self._policy.trainable_variables)
      action, log_prob = self._sample(data.o_tm1, 1)
      q = _stack_values(self._critics, data.o_tm1, action)
      policy_loss = tf.reduce_mean(
        soft_actor_critic.policy_loss(q, log_prob, temperature)
      )
    self._policy_optimizer.minimize(policy_loss, tape, rate)

    with tf.GradientTape() as tape:
      temperature_loss = tf.reduce_mean(
        soft_actor_critic.temperature_loss(
          self._log_temperature, log_prob, self._target_entropy
        )
      )
    self._temperature_optimizer.minimize(temperature_loss, tape, rate)
    targets.soft_update(
      _get_variables(self._targets), self._critic_variables, self._learner.tau
    )
    with tf.control_dependencies([norm]):
      self.steps.assign_add(1)
    return core.Update(
      {
        "critic_loss": critic_loss,
        "policy_loss": policy_loss,
        "q_mean": tf.reduce_mean(q_tm1),
        "entropy": -tf.reduce_mean(log_prob),
        "temperature": temperature,
        "gradient_norm": norm,
      }
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the variables that actors need, as arrays by name."""
    return self._policy.get_variables() | self._normalizer.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """Objects by name that checkpoints save; see `core.Learner`.

    They are networks, optimizers, temperature, step count, and any statistics.
    """
    return {
      **self._normalizer.checkpointed,
      "policy": self._policy,
      "critics": self._critics,
      "targets": self._targets,
      "log_temperature": self._log_temperature,
      "critic_optimizer": self._critic_optimizer,
      "policy_optimizer": self._policy_optimizer,
      "temperature_optimizer": self._temperature_optimizer,
      "steps": self.steps,
    }

  def _sample(
    self, observation: tf.Tensor, index: int
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Samples actions of the policy.

    Args:
      observation: observations [B, ...].
      index: index of the sample in the update, below `_SAMPLES_PER_UPDATE`.
        Each sample has different noise.

    Returns:
      Actions [B, A], and their log-densities [B].
    """
    policy: typing.Any = self._declaration.distribution(
      tf_ops, self._policy(observation)
    )
    step = _SAMPLES_PER_UPDATE * tf.cast(self.steps, tf.int32) + index
    return policy.sample_with_log_prob(tf.stack([self._seed, step]))


def _stack_values(
  critics: list[tf_network.Network], observation: tf.Tensor, action: tf.Tensor
) -> tf.Tensor:
  """Returns the values q(o, a) [B, C] of C critics.

  Args:
    critics: the critics.
    observation: observations [B, ...].
    action: actions [B, A].
  """
  return tf.stack([critic(observation, action) for critic in critics], axis=1)


def _get_variables(networks: list[tf_network.Network]) -> list[tf.Variable]:
  """Returns the trainable variables of all networks."""
  return [v for one in networks for v in one.trainable_variables]
