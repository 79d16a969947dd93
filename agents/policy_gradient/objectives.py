"""The total loss of a minibatch, in the variants that configs select."""

import typing
from collections.abc import Mapping, Sequence

import ml_collections
import tensorflow as tf

from slipway.agents import optimizer
from slipway.agents.losses import policy_gradient
from slipway.agents.networks import distributions, policy_head, tf_ops
from slipway.agents.policy_gradient import models


class Objective:
  """Function from a minibatch to its loss of policy, values and entropy.

    L = L_policy + value_weight (v - G)^2 / 2 - entropy_weight H

  with values v, returns G, and the policy's entropy H. L_policy is that of the
  policy gradient, PPO or V-MPO, as `learner.policy_loss` selects.

  Attributes:
    metrics: names of the metrics that each call returns.
    variables: variables of the loss, which learn from it, too: V-MPO's
      temperature and multipliers, else none.
  """

  def __init__(
    self, settings: ml_collections.ConfigDict, head: policy_head.PolicyHead
  ):
    self._settings, self._head = settings, head
    self.metrics = ["policy_loss", "value_loss", "entropy", "kl"]
    self.variables: Sequence[tf.Variable] = []
    if settings.policy_loss == "clipped":
      self.metrics.append("clip_fraction")
    elif settings.policy_loss == "vmpo":
      self.metrics += ["temperature", "kl_multiplier"]
      multipliers = [settings.kl_multiplier] * self._count_constraints()
      # With the small steps of the networks, logarithms change sooner.
      self._temperature = optimizer.Dual(
        settings.temperature, is_logarithm=True
      )
      self._multipliers = optimizer.Dual(multipliers, is_logarithm=True)
      self.variables = [self._temperature.variable, self._multipliers.variable]

  @property
  def checkpointed(self) -> dict[str, typing.Any]:
    return {"objective": list(self.variables)} if self.variables else {}

  def __call__(
    self,
    steps: Mapping[str, tf.Tensor],
    outputs: models.Outputs,
    decay_factor: tf.Tensor,
    seed: tf.Tensor,
  ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns the loss and the metrics of a minibatch of N steps."""
    settings, learned = self._settings, steps["learned"]
    weights = learned / tf.maximum(tf.reduce_sum(learned), 1.0)

    def mean(x: tf.Tensor) -> tf.Tensor:
      """Returns the mean [] of x [N] over the steps that count."""
      return tf.reduce_sum(weights * x)

    parameters, values = outputs
    policy = self._head.distribution(tf_ops, parameters)
    behaviour = self._head.distribution(tf_ops, steps["behaviour"])
    log_prob = policy.log_prob(steps["action"])
    advantage = steps["advantage"]
    if settings.normalize_advantages:
      centred = advantage - mean(advantage)
      advantage = centred / (tf.sqrt(mean(centred**2)) + 1e-8)
    own: dict[str, tf.Tensor] = {}  # metrics of the kind of loss
    if settings.policy_loss == "clipped":
      clipped = policy_gradient.clipped_policy(
        log_prob, steps["old_log_prob"], advantage, settings.clip * decay_factor
      )
      policy_loss = mean(clipped.loss)
      own["clip_fraction"] = mean(clipped.clipped)
    elif settings.policy_loss == "vmpo":
      policy_loss, own = self._compute_vmpo_loss(
        policy, behaviour, log_prob, advantage, learned
      )
    else:
      policy_loss = mean(policy_gradient.policy_gradient(log_prob, advantage))
    value_loss = mean(self._value_losses(values, steps))
    entropy = mean(policy.entropy(seed))
    loss = (
      policy_loss
      + settings.value_weight * value_loss
      - settings.entropy_weight * entropy
    )
    return loss, {
      "policy_loss": policy_loss,
      "value_loss": value_loss,
      "entropy": entropy,
      "kl": mean(behaviour.kl(policy)),
      **own,
    }

  def _value_losses(
    self, values: tf.Tensor, steps: Mapping[str, tf.Tensor]
  ) -> tf.Tensor:
    """Returns half the squared errors of values, [N]."""
    errors, clip = (values - steps["return"]) ** 2, self._settings.value_clip
    if clip:
      old = steps["old_value"]
      clipped = old + tf.clip_by_value(values - old, -clip, clip)
      errors = tf.maximum(errors, (clipped - steps["return"]) ** 2)
    return 0.5 * errors

  def _compute_vmpo_loss(
    self,
    policy: typing.Any,
    behaviour: typing.Any,
    log_prob: tf.Tensor,
    advantage: tf.Tensor,
    learned: tf.Tensor,
  ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns V-MPO's loss [] of N steps, and its metrics by name."""
    settings = self._settings
    temperature, multipliers = self._temperature(), self._multipliers()
    bounds = [settings.kl_bound, settings.std_kl_bound]
    found = policy_gradient.vmpo(
      log_prob,
      advantage,
      tf.stack(distributions.kl_parts(behaviour, policy)[1], axis=1),
      learned,
      temperature,
      multipliers,
      settings.temperature_bound,
      tf.constant(bounds[: multipliers.shape[0]]),
    )
    loss = found.policy_loss + found.temperature_loss + found.kl_loss
    return loss, {
      "temperature": temperature,
      "kl_multiplier": tf.reduce_mean(multipliers),
    }

  def _count_constraints(self) -> int:
    """Returns the number of KL bounds of V-MPO for the kind of policy."""
    parameters = tf.zeros([1, self._head.size])
    one = self._head.distribution(tf_ops, parameters)
    return len(one.replace_parts(one))
