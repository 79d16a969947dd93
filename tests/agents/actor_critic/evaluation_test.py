"""Tests of Retrace's targets, of policy and critics, against slow sums."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import normalizer, policies
from slipway.agents.actor_critic import critics as critics_lib
from slipway.agents.actor_critic import evaluation, improvement
from slipway.configs import catalog
from slipway.replay.items import priorities, sequences
from tests.agents import collected

BATCH, STEPS, GAMMA, SAMPLES = 8, 7, 0.9, 3
WEIGHTS = np.linspace(0.1, 1.0, BATCH).astype(np.float32)
ACTION_SEED, CRITIC_SEED = tf.constant([1, 2]), tf.constant([3, 4])


def make_config(name):
  config = catalog.algorithms()[name].get_config("pendulum")
  config.network.hidden_sizes = (16, 16)
  config.network.critics = 2
  config.learner.update({"critic_target": "retrace", "retrace_lambda": 0.8})
  if name == "mpo":
    config.learner.action_samples = SAMPLES
  config.adder.update({"unroll": STEPS, "period": 1})
  config.replay.update({"sampler": "prioritized", "transitions_per_item": 1})
  return config


def make_sequences(seed=0):
  """Returns sequences with several episode ends and autoresets each."""
  random = np.random.default_rng(seed)
  ended = np.zeros((BATCH, STEPS), bool)
  first = np.zeros((BATCH, STEPS + 1), bool)
  first[:, 0] = random.random(BATCH) < 0.5
  resets = ~first[:, 0] & (random.random(BATCH) < 0.5)
  for t in range(STEPS):
    ended[:, t] = ~resets & (random.random(BATCH) < 0.4)
    first[:, t + 1], resets = resets, ended[:, t]
  terminated = ended & (random.random((BATCH, STEPS)) < 0.5)

  def normal(*shape):
    return random.normal(size=shape).astype(np.float32)

  return sequences.Sequence(
    observation=normal(BATCH, STEPS + 1, 3),
    action=np.tanh(normal(BATCH, STEPS, 1)),
    reward=normal(BATCH, STEPS),
    discount=(GAMMA * ~terminated).astype(np.float32),
    ended=ended,
    first=first,
    action_before=normal(BATCH, 1),
    reward_before=normal(BATCH),
    extras={policies.LOG_PROB: normal(BATCH, STEPS)},
  )


def to_tensors(data):
  return tf.nest.map_structure(tf.constant, data)


class ShiftedCritics(critics_lib.Critics):
  """Critics whose target encoder differs from the learned one."""

  def encode_for_targets(self, observation):
    return observation + 0.5


class Networks:
  """Policy and critics of a learner, and the evaluation that uses both."""

  def __init__(self, name):
    config = make_config(name)
    builder, spec = collected.build(config)
    builder.check(config, spec)
    declaration = builder.make_network(config, spec)
    self.critics = ShiftedCritics(config, spec)
    self.policy = improvement.make_improvement(config, spec, declaration)
    # Makes the target networks differ from the learned networks.
    for tracked in (self.critics, self.policy):
      for key, network in tracked.checkpointed.items():
        if key in ("target_critics", "target_policy"):
          for variable in network.trainable_variables:
            variable.assign_add(tf.fill(variable.shape, 0.05))
    self.evaluation = evaluation.make_evaluation(
      config, normalizer.Normalizer(config, spec), self.critics, self.policy
    )

  def make_inputs(self, data):
    return self.evaluation.make_inputs(
      to_tensors(data), tf.constant(WEIGHTS), None, ACTION_SEED, CRITIC_SEED
    )

  def find_targets(self, data):
    """Returns the targets [N] of the critics.

    At an output of 0, the gradient of half the squared error is minus the
    target.
    """
    inputs = self.make_inputs(data)
    outputs = tf.zeros([inputs.action.shape[0], 2, 1])
    with tf.GradientTape() as tape:
      tape.watch(outputs)
      loss = inputs.loss(outputs).loss
    return -tape.gradient(loss, outputs)[:, 0, 0].numpy()


def learned_steps(data):
  """Returns the indices (b, t) of all steps except autoresets."""
  return list(zip(*np.nonzero(~data.first[:, 1:]), strict=True))


def slow_targets(networks, data, lambda_=0.8):
  """Returns the targets by step (b, t): Munos et al. 2016, equation 3."""
  target = networks.critics.checkpointed["target_critics"]
  before = data.observation[:, :-1].reshape(-1, 3)
  after = data.observation[:, 1:].reshape(-1, 3)
  actions = data.action.reshape(-1, 1)
  shape = (BATCH, STEPS)
  own_before, own_after = before, after
  before, after = (
    networks.critics.encode_for_targets(x) for x in (before, after)
  )
  if "target_policy" in networks.policy.checkpointed:
    own_before, own_after = before, after
  log_prob = networks.policy.log_prob(own_before, actions)
  ratio = np.exp(np.reshape(log_prob, shape) - data.extras[policies.LOG_PROB])
  chosen = networks.policy.next_action(tf.constant(own_after), ACTION_SEED)
  values = np.mean(
    [target(after, action)[:, :, 0] for action in chosen.action], axis=0
  ).min(axis=1)
  if chosen.entropy_cost is not None:
    values = values - chosen.entropy_cost.numpy()
  values = values.reshape(shape)
  q = target(before, actions)[:, :, 0].numpy().min(axis=1).reshape(shape)
  found = []
  for b, t in learned_steps(data):
    total = float(q[b, t])
    for s in range(t, STEPS):
      weight = 1.0
      for i in range(t + 1, s + 1):
        weight *= GAMMA * lambda_ * min(1.0, float(ratio[b, i]))
      bootstrap = data.discount[b, s] * values[b, s]
      total += weight * float(data.reward[b, s] + bootstrap - q[b, s])
      if data.ended[b, s]:
        break
    found.append(total)
  return np.array(found)


@pytest.mark.parametrize("name", ["mpo", "sac"])
def test_targets_equal_the_slow_sum(name):
  networks, data = Networks(name), make_sequences()
  assert data.ended.sum(axis=1).max() >= 2
  inputs = networks.make_inputs(data)
  found = networks.find_targets(data)
  np.testing.assert_allclose(
    found, slow_targets(networks, data), rtol=1e-4, atol=1e-4
  )
  for i, (b, t) in enumerate(learned_steps(data)):
    np.testing.assert_array_equal(inputs.encode()[i], data.observation[b, t])
    np.testing.assert_array_equal(inputs.action[i], data.action[b, t])
    assert inputs.weights[i] == WEIGHTS[b]


@pytest.mark.parametrize("name", ["mpo", "sac"])
def test_autoresets_have_no_effect(name):
  networks, data = Networks(name), make_sequences()
  resets = data.first[:, 1:]
  assert resets.sum() > BATCH / 2
  other = data._replace(
    reward=np.where(resets, 9.0, data.reward).astype(np.float32),
    action=np.where(resets[..., None], 0.9, data.action).astype(np.float32),
    extras={
      policies.LOG_PROB: np.where(
        resets, -5.0, data.extras[policies.LOG_PROB]
      ).astype(np.float32)
    },
  )
  found, expected = (networks.find_targets(x) for x in (other, data))
  assert len(found) == (~resets).sum()
  np.testing.assert_array_equal(found, expected)


def test_priorities_follow_from_the_errors_of_each_sequence():
  networks, data = Networks("mpo"), make_sequences()
  errors = np.arange(1.0, len(learned_steps(data)) + 1.0, dtype=np.float32)
  found = networks.evaluation.compute_priorities(
    to_tensors(data), tf.constant(errors)
  )
  for b in range(BATCH):
    own = [
      x for x, (i, _) in zip(errors, learned_steps(data), strict=True) if i == b
    ]
    expected = 0.9 * max(own) + 0.1 * np.mean(own) + priorities.OFFSET
    np.testing.assert_allclose(found[b], expected, rtol=1e-5)
