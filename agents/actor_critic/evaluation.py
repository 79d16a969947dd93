"""Evaluation: how a batch from the replay becomes steps with critics' targets.

The critics evaluate a policy: that of `improvement`, or its target network.
"""

import ml_collections
import tensorflow as tf

from slipway.agents import normalizer as normalizer_lib
from slipway.agents import policies
from slipway.agents.actor_critic import critics as critics_lib
from slipway.agents.actor_critic import improvement
from slipway.agents.losses import retrace
from slipway.agents.networks import tf_ops
from slipway.replay.items import priorities, sequences, transitions


class TransitionEvaluation:
  """The critics' targets of n-step transitions, each of which is one step."""

  def __init__(
    self,
    normalizer: normalizer_lib.Normalizer,
    critics: critics_lib.Critics,
    policy: improvement.Improvement,
  ):
    self._normalizer, self._critics = normalizer, critics
    self._policy = policy

  def make_inputs(
    self,
    data: transitions.Transition,
    weights: tf.Tensor,
    inverse_rates: tf.Tensor | None,
    action_seed: tf.Tensor,
    critic_seed: tf.Tensor,
  ) -> critics_lib.CriticInputs:
    """Normalizes a batch, and returns its steps with their targets."""
    data = self._normalizer.normalize_transitions(data, inverse_rates)
    features_t = self._critics.encode_for_targets(data.o_t)
    seen = features_t
    if not self._policy.has_target:
      seen = self._critics.encode(data.o_t)
    chosen = self._policy.next_action(seen, action_seed)
    loss = self._critics.make_transition_loss(
      data, features_t, chosen.action, chosen.entropy_cost, critic_seed
    )
    return critics_lib.CriticInputs(data.o_tm1, data.a_tm1, loss, weights)

  def compute_priorities(
    self, data: transitions.Transition, td_error: tf.Tensor
  ) -> tf.Tensor:
    """Returns new priorities [B], from the critics' error of each step."""
    del data
    return priorities.from_td_errors(td_error)


class RetraceEvaluation:
  """Targets of the steps of sequences, by Retrace.

  The policy's N actions in each observation, and the lowest of the target
  critics, give the expected values, as for transitions. Autoresets are no steps
  of an episode, so they are left out of the inputs of the critics.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    normalizer: normalizer_lib.Normalizer,
    critics: critics_lib.Critics,
    policy: improvement.Improvement,
  ):
    self._lambda, self._eta = config.learner.retrace_lambda, config.replay.eta
    self._normalizer, self._critics = normalizer, critics
    self._policy = policy

  def make_inputs(
    self,
    data: sequences.Sequence,
    weights: tf.Tensor,
    inverse_rates: tf.Tensor | None,
    action_seed: tf.Tensor,
    critic_seed: tf.Tensor,
  ) -> critics_lib.CriticInputs:
    """Returns the steps of B sequences of T steps; as for transitions."""
    self._normalizer.add_observations(
      data.observation[:, :-1], weights=inverse_rates
    )
    data = self._normalizer.normalize_sequences(data, inverse_rates)
    targets = self._compute_targets(data, action_seed, critic_seed)
    learned = _find_learned(data)
    each = tf.broadcast_to(weights[:, None], tf.shape(data.reward))
    return critics_lib.CriticInputs(
      tf.boolean_mask(data.observation[:, :-1], learned),
      tf.boolean_mask(data.action, learned),
      critics_lib.make_squared_loss(tf.boolean_mask(targets, learned)),
      tf.boolean_mask(each, learned),
    )

  def compute_priorities(
    self, data: sequences.Sequence, td_error: tf.Tensor
  ) -> tf.Tensor:
    """Returns the priorities of B sequences; as for transitions."""
    learned = _find_learned(data)
    errors = tf.scatter_nd(
      tf.where(learned), td_error, tf.shape(learned, tf.int64)
    )  # [B, T]
    return priorities.from_sequences(
      errors, tf.cast(learned, tf.float32), self._eta
    )

  def _compute_targets(
    self,
    data: sequences.Sequence,
    action_seed: tf.Tensor,
    critic_seed: tf.Tensor,
  ) -> tf.Tensor:
    """Returns Retrace's targets [B, T] of normalized sequences."""
    critics, shape = self._critics, tf.shape(data.reward)
    action = tf_ops.merge_batch_and_time(data.action)

    def split(features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
      """Returns the features [B * T, ...] before and after the steps."""
      both = tf.reshape(
        features, [-1, data.observation.shape[1], *features.shape[1:]]
      )
      return tf_ops.merge_batch_and_time(
        both[:, :-1]
      ), tf_ops.merge_batch_and_time(both[:, 1:])

    observation = tf_ops.merge_batch_and_time(data.observation)
    before, after = split(critics.encode_for_targets(observation))
    seen_before, seen_after = before, after
    if not self._policy.has_target:
      seen_before, seen_after = split(critics.encode(observation))
    log_prob = self._policy.log_prob(seen_before, action)
    chosen = self._policy.next_action(seen_after, action_seed)
    q = critics.compute_target_values(before, action[None], critic_seed)
    values = critics.compute_target_values(after, chosen.action, critic_seed)
    if chosen.entropy_cost is not None:
      values -= chosen.entropy_cost
    return retrace.retrace_targets(
      data.reward,
      data.discount,
      data.ended,
      tf.reshape(q, shape),
      tf.reshape(values, shape),
      tf.reshape(log_prob, shape) - data.extras[policies.LOG_PROB],
      self._lambda,
    )


def make_evaluation(
  config: ml_collections.ConfigDict,
  normalizer: normalizer_lib.Normalizer,
  critics: critics_lib.Critics,
  policy: improvement.Improvement,
) -> TransitionEvaluation | RetraceEvaluation:
  """Makes the evaluation of `config.learner.critic_target`."""
  if config.learner.critic_target == "n_step":
    return TransitionEvaluation(normalizer, critics, policy)
  return RetraceEvaluation(config, normalizer, critics, policy)


def _find_learned(data: sequences.Sequence) -> tf.Tensor:
  """Returns whether each step is part of an episode, bool [B, T]."""
  return tf.logical_not(data.first[:, 1:])
