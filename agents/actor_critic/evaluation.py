"""Evaluation: how a batch from the replay becomes steps with critics' targets.

The critics evaluate a policy: that of `improvement`, or its target network.
"""

import functools
import typing
from collections.abc import Callable

import ml_collections
import tensorflow as tf

from slipway.agents import burn_in, policies
from slipway.agents import normalizer as normalizer_lib
from slipway.agents.actor_critic import critics as critics_lib
from slipway.agents.actor_critic import improvement
from slipway.agents.losses import offline, retrace, traces
from slipway.agents.networks import recurrent, tf_ops
from slipway.configs import actor_critic
from slipway.replay.items import priorities, sequences, transitions


class TransitionEvaluation:
  """The critics' targets of n-step transitions, each of which is one step.

  With `learner.target_bc_weight`, their bootstrap is lower the further the next
  actions are from the stored ones: Tarasov et al. 2023, "Revisiting the
  minimalist approach to offline reinforcement learning"
  (https://arxiv.org/abs/2305.09836).
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    normalizer: normalizer_lib.Normalizer,
    critics: critics_lib.Critics,
    policy: improvement.Improvement,
  ):
    self._bc_weight = config.learner.target_bc_weight
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
    data = self._normalizer.normalize_transitions(
      data, inverse_rates, action_seed
    )
    features_t = self._critics.encode_for_targets(data.o_t)
    seen = features_t
    if not self._policy.has_target:
      seen = self._critics.encode(data.o_t)
    chosen = self._policy.next_action(seen, action_seed)
    if self._bc_weight:
      error = offline.imitation_error(chosen.action[0], data.a_t)
      chosen = chosen._replace(cost=self._bc_weight * error)
    loss = _make_transition_loss(
      self._critics,
      data.r_t,
      data.discount_t,
      features_t,
      chosen,
      critic_seed,
    )
    return critics_lib.CriticInputs(
      lambda: self._critics.encode(data.o_tm1), data.a_tm1, loss, weights
    )

  def compute_priorities(
    self, data: transitions.Transition, td_error: tf.Tensor
  ) -> tf.Tensor:
    """Returns new priorities [B], from the critics' error of each step."""
    del data
    return priorities.from_td_errors(td_error)


class _Features(typing.NamedTuple):
  """Features of the observations of B sequences of T steps, [B, T + 1, F].

  Attributes:
    target: by the encoder's moving average, for the target critics.
    seen: those on which the policy chooses the next actions.
    encode: returns those from which the critics learn, with gradients.
  """

  target: tf.Tensor
  seen: tf.Tensor
  encode: Callable[[], tf.Tensor]


class SequenceEvaluation:
  """Targets of the steps of sequences, by Retrace or by n-step returns.

  The policy's N actions in each observation, and the lowest of the target
  critics, give the expected values, as for transitions. Autoresets are no steps
  of an episode, so they are left out of the inputs of the critics.

  With a recurrent encoder, features depend on the episode so far. Its memory
  starts from the state that the worker had, and the first `adder.burn_in` steps
  only update it: Kapturowski et al. 2019, "Recurrent experience replay in
  distributed reinforcement learning", section 2.3.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    normalizer: normalizer_lib.Normalizer,
    critics: critics_lib.Critics,
    policy: improvement.Improvement,
  ):
    self._has_memory = bool(config.network.core_size)
    self._burn_in = config.adder.burn_in if self._has_memory else 0
    self._n_step = config.adder.n_step
    self._traces = config.learner.critic_target == "retrace"
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
    data = self._normalizer.normalize_sequences(
      data, inverse_rates, action_seed
    )
    features = self._encode(data)
    data = self._drop_burn_in(data)
    learned = _find_learned(data)
    make_loss = self._make_retrace_loss if self._traces else self._make_loss
    loss = make_loss(data, features, learned, action_seed, critic_seed)
    each = tf.broadcast_to(weights[:, None], tf.shape(data.reward))
    return critics_lib.CriticInputs(
      lambda: tf.boolean_mask(features.encode()[:, :-1], learned),
      tf.boolean_mask(data.action, learned),
      loss,
      tf.boolean_mask(each, learned),
    )

  def compute_priorities(
    self, data: sequences.Sequence, td_error: tf.Tensor
  ) -> tf.Tensor:
    """Returns the priorities of B sequences; as for transitions."""
    learned = _find_learned(self._drop_burn_in(data))
    errors = tf.scatter_nd(
      tf.where(learned), td_error, tf.shape(learned, tf.int64)
    )  # [B, T]
    return priorities.from_sequences(
      errors, tf.cast(learned, tf.float32), self._eta
    )

  def _encode(self, data: sequences.Sequence) -> _Features:
    """Returns the features of normalized sequences, after the burn-in."""
    if self._has_memory:
      return self._unroll(data)

    def split(encode: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
      features = encode(tf_ops.merge_batch_and_time(data.observation))
      steps: typing.Any = data.observation.shape[1]
      return tf.reshape(features, [-1, steps, *features.shape[1:]])

    target = split(self._critics.encode_for_targets)
    seen = target if self._policy.has_target else split(self._critics.encode)
    return _Features(target, seen, lambda: split(self._critics.encode))

  def _unroll(self, data: sequences.Sequence) -> _Features:
    inputs = recurrent.sequence_inputs(data, tf_ops.concat)
    state = data.extras[recurrent.STATE]

    def unroll(by_target: bool) -> tf.Tensor:
      step = functools.partial(self._critics.unroll, by_target=by_target)
      return step(*burn_in.warm_up(step, inputs, state, self._burn_in))[0]

    target = unroll(by_target=True)
    seen = target if self._policy.has_target else unroll(by_target=False)
    return _Features(target, seen, lambda: unroll(by_target=False))

  def _drop_burn_in(self, data: sequences.Sequence) -> sequences.Sequence:
    """Returns the steps of sequences after the burn-in."""
    names = ("observation", "action", "reward", "discount", "ended", "first")
    late = {name: getattr(data, name)[:, self._burn_in :] for name in names}
    extras = dict(data.extras)
    if policies.LOG_PROB in extras:
      extras[policies.LOG_PROB] = extras[policies.LOG_PROB][:, self._burn_in :]
    return data._replace(**late, extras=extras)

  def _make_loss(
    self,
    data: sequences.Sequence,
    features: _Features,
    learned: tf.Tensor,
    action_seed: tf.Tensor,
    critic_seed: tf.Tensor,
  ) -> critics_lib.LossFunction:
    """Returns the loss of n-step returns within sequences."""
    returns = traces.n_step_returns(
      data.reward, data.discount, data.ended, self._n_step
    )

    def take(all_features: tf.Tensor) -> tf.Tensor:
      """Returns those of the observations that end the returns, [N, F]."""
      after = tf.gather(all_features, returns.index, batch_dims=1)
      return tf.boolean_mask(after, learned)

    chosen = self._policy.next_action(take(features.seen), action_seed)
    return _make_transition_loss(
      self._critics,
      tf.boolean_mask(returns.reward, learned),
      tf.boolean_mask(returns.discount, learned),
      take(features.target),
      chosen,
      critic_seed,
    )

  def _make_retrace_loss(
    self,
    data: sequences.Sequence,
    features: _Features,
    learned: tf.Tensor,
    action_seed: tf.Tensor,
    critic_seed: tf.Tensor,
  ) -> critics_lib.LossFunction:
    """Returns the loss of Retrace's targets [B, T]."""
    critics, shape = self._critics, tf.shape(data.reward)
    action = tf_ops.merge_batch_and_time(data.action)
    before, after, seen_before, seen_after = (
      tf_ops.merge_batch_and_time(x[:, part])
      for x in (features.target, features.seen)
      for part in (slice(-1), slice(1, None))
    )
    log_prob = self._policy.log_prob(seen_before, action)
    chosen = self._policy.next_action(seen_after, action_seed)
    q = critics.compute_target_values(before, action[None], critic_seed)
    values = critics.compute_target_values(after, chosen.action, critic_seed)
    if chosen.cost is not None:
      values -= chosen.cost
    targets = retrace.retrace_targets(
      data.reward,
      data.discount,
      data.ended,
      tf.reshape(q, shape),
      tf.reshape(values, shape),
      tf.reshape(log_prob, shape) - data.extras[policies.LOG_PROB],
      self._lambda,
    )
    return critics_lib.make_squared_loss(tf.boolean_mask(targets, learned))


def make_evaluation(
  config: ml_collections.ConfigDict,
  normalizer: normalizer_lib.Normalizer,
  critics: critics_lib.Critics,
  policy: improvement.Improvement,
) -> TransitionEvaluation | SequenceEvaluation:
  """Makes the evaluation of a config's transitions or sequences."""
  if actor_critic.uses_sequences(config):
    return SequenceEvaluation(config, normalizer, critics, policy)
  return TransitionEvaluation(config, normalizer, critics, policy)


def _make_transition_loss(
  critics: critics_lib.Critics,
  r_t: tf.Tensor,
  discount_t: tf.Tensor,
  features_t: tf.Tensor,
  chosen: improvement.NextAction,
  seed: tf.Tensor,
) -> critics_lib.LossFunction:
  """Returns `Critics.make_transition_loss`, or that of the policy's value."""
  if chosen.value is not None:
    return critics_lib.make_squared_loss(r_t + discount_t * chosen.value)
  return critics.make_transition_loss(
    r_t, discount_t, features_t, chosen.action, chosen.cost, seed
  )


def _find_learned(data: sequences.Sequence) -> tf.Tensor:
  """Returns whether each step is part of an episode, bool [B, T]."""
  return tf.logical_not(data.first[:, 1:])
