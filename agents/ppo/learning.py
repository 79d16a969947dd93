"""The learner of PPO."""

import typing
from collections.abc import Mapping

import ml_collections
import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core, normalizer, optimizer, policies
from slipway.agents.losses import policy_gradient
from slipway.agents.networks import actor_critic, tf_network, tf_ops
from slipway.replay.items import returns, sequences
from slipway.replay.tables import dataset as dataset_lib

_METRICS = (
  "policy_loss",
  "value_loss",
  "entropy",
  "kl",
  "clip_fraction",
  "gradient_norm",
)


class PPOLearner:
  """Clipped policy gradients: Schulman et al. 2017, algorithm 1.

  A trainer step is an update on one batch of rollouts: several epochs of
  minibatches, all in one graph.

  Attributes:
    steps: updates done, int64.
  """

  def __init__(
    self, config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
  ):
    """Makes policy and value network.

    Args:
      config: the whole config.
      spec: of one environment.
    """
    self._learner = config.learner.copy_and_resolve_references()
    self._seed, network = config.seed, config.network
    self._normalizer = normalizer.Normalizer(config, spec, policies.POLICY)
    self._declaration = policies.make_policy(network, spec)
    self._policy = tf_network.Network(
      self._declaration, config.seed, policies.POLICY
    )
    self._value = tf_network.Network(
      actor_critic.ValueNetwork(
        spec,
        network.torso,
        network.hidden_sizes,
        network.activation,
        network.orthogonal,
      ),
      config.seed,
      "value",
    )
    self._optimizer = optimizer.Optimizer(
      [
        *self._policy.trainable_variables,
        *self._value.trainable_variables,
      ],
      self._learner.adam_epsilon,
      self._learner.max_gradient_norm,
    )
    self.steps = tf.Variable(tf.zeros((), tf.int64), name="trainer_steps")

  def update(self, batch: dataset_lib.Batch) -> core.Update:
    """Learns from a batch of rollouts, which has no priorities."""
    # A batch is learned from with the statistics that it was collected with, so
    # that ratios of probabilities start at 1. The first batch has only its own.
    rollout, is_first = batch.data, self.steps == 0
    # The last observation of a rollout is the first one of the next.
    observation = rollout.observation[:, :-1]
    self._normalizer.add_observations(observation, is_first)
    steps = self._flatten(self._normalize(rollout))
    values = steps.pop("value")
    learned = steps["learned"]
    count: typing.Any = learned.shape[0]
    minibatches = count // self._learner.minibatch_size
    total = self._learner.epochs * minibatches
    rest = self._remaining()
    order = tf.zeros([count], tf.int32)

    def minibatch(i, order, sums):
      order = tf.cond(
        i % minibatches == 0, lambda: self._shuffle(count, i), lambda: order
      )
      start = (i % minibatches) * self._learner.minibatch_size
      chosen = order[start : start + self._learner.minibatch_size]
      one = {name: tf.gather(x, chosen) for name, x in steps.items()}
      return i + 1, order, sums + self._descend(one, rest)

    _, _, sums = tf.while_loop(
      lambda i, *_: i < total,
      minibatch,
      (tf.constant(0), order, tf.zeros([len(_METRICS)])),
      parallel_iterations=1,
    )
    self._normalizer.add_observations(observation, tf.logical_not(is_first))
    with tf.control_dependencies([sums]):
      self.steps.assign_add(1)
    means = tf.unstack(sums / tf.cast(total, tf.float32))
    return core.Update(
      {
        **dict(zip(_METRICS, means, strict=True)),
        "explained_variance": _explained_variance(
          values, steps["return"], learned
        ),
      }
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the policy's variables, by name."""
    return self._policy.get_variables() | self._normalizer.get_variables()

  @property
  def checkpointed(self) -> Mapping[str, typing.Any]:
    """Both networks, the optimizer, the step count, and any statistics."""
    return {
      **self._normalizer.checkpointed,
      "policy": self._policy,
      "value": self._value,
      "optimizer": self._optimizer,
      "steps": self.steps,
    }

  def _normalize(self, rollout: sequences.Sequence) -> sequences.Sequence:
    return rollout._replace(
      observation=self._normalizer.observations(rollout.observation),
      reward=self._normalizer.rewards(
        rollout.reward,
        rollout.extras.get(returns.FIELD),
        rollout.first[:, 1:],
      ),
    )

  def _flatten(self, rollout: sequences.Sequence) -> dict[str, tf.Tensor]:
    """Returns what minibatches are taken from, [B * T, ...] each."""
    shape = rollout.observation.shape
    observations = tf.reshape(rollout.observation, (-1, *shape[2:]))
    values = tf.reshape(self._value(observations), (-1, shape[1]))  # [B, T + 1]
    found = policy_gradient.generalized_advantages(
      rollout.reward,
      rollout.discount,
      rollout.ended,
      values,
      self._learner.gae_lambda,
    )
    # The step in which an environment resets itself is not learned from.
    learned = 1.0 - tf.cast(rollout.first[:, 1:], tf.float32)
    steps = {
      "observation": rollout.observation[:, :-1],
      "action": rollout.action,
      "log_prob": rollout.extras[policies.LOG_PROB],
      "advantage": found.advantages,
      "return": found.returns,
      "value": values[:, :-1],
      "learned": learned,
    }
    return {
      name: tf.reshape(x, (-1, *x.shape[2:])) for name, x in steps.items()
    }

  def _descend(
    self, steps: Mapping[str, tf.Tensor], rest: tf.Tensor
  ) -> tf.Tensor:
    """Takes a gradient step on one minibatch; returns its metrics [M]."""
    settings, learned = self._learner, steps["learned"]
    weights = learned / tf.maximum(tf.reduce_sum(learned), 1.0)

    def mean(x: tf.Tensor) -> tf.Tensor:
      return tf.reduce_sum(weights * x)

    advantage = steps["advantage"]
    if settings.normalize_advantages:
      centred = advantage - mean(advantage)
      advantage = centred / (tf.sqrt(mean(centred**2)) + 1e-8)
    with tf.GradientTape() as tape:
      policy = self._declaration.distribution(
        tf_ops, self._policy(steps["observation"])
      )
      log_prob = policy.log_prob(steps["action"])
      clipped = policy_gradient.clipped_policy(
        log_prob, steps["log_prob"], advantage, settings.clip * rest
      )
      entropy = mean(policy.entropy())
      error = self._value(steps["observation"]) - steps["return"]
      value_loss = 0.5 * mean(error**2)
      policy_loss = mean(clipped.loss)
      loss = (
        policy_loss
        + settings.value_weight * value_loss
        - settings.entropy_weight * entropy
      )
    norm = self._optimizer.minimize(loss, tape, settings.learning_rate * rest)
    return tf.stack(
      [
        policy_loss,
        value_loss,
        entropy,
        mean(clipped.kl),
        mean(clipped.clipped),
        norm,
      ]
    )

  def _remaining(self) -> tf.Tensor:
    """Returns the factor of step size and clip, which may fall to 0, []."""
    if not self._learner.decay_steps:
      return tf.constant(1.0)
    done = tf.cast(self.steps, tf.float32) / self._learner.decay_steps
    # Not quite to 0, or a run that goes on would learn nothing more.
    return tf.maximum(1.0 - done, 0.05)

  def _shuffle(self, count: int, i: tf.Tensor) -> tf.Tensor:
    """Returns the order of the steps in an epoch; it follows from the seed."""
    step = tf.cast(self.steps, tf.int32)
    seed = tf.stack([self._seed + i, step])
    return tf.argsort(tf.random.stateless_uniform([count], seed))


def _explained_variance(
  values: tf.Tensor, returns: tf.Tensor, learned: tf.Tensor
) -> tf.Tensor:
  """Returns 1 - Var(returns - values) / Var(returns), []."""
  count = tf.maximum(tf.reduce_sum(learned), 1.0)

  def variance(x: tf.Tensor) -> tf.Tensor:
    mean = tf.reduce_sum(learned * x) / count
    return tf.reduce_sum(learned * (x - mean) ** 2) / count

  return 1.0 - variance(returns - values) / (variance(returns) + 1e-8)
