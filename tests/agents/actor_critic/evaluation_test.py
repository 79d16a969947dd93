"""Tests of Retrace's targets, of policy and critics, against slow sums."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import normalizer, policies
from slipway.agents.actor_critic import critics as critics_lib
from slipway.agents.actor_critic import evaluation, improvement
from slipway.agents.networks import (
  cores,
  encoder_network,
  layers,
  policy_network,
  recurrent,
)
from slipway.configs import catalog
from slipway.replay.items import priorities, sequences
from tests.agents import collected

BATCH, STEPS, GAMMA, SAMPLES = 8, 7, 0.9, 3
WEIGHTS = np.linspace(0.1, 1.0, BATCH).astype(np.float32)
ACTION_SEED, CRITIC_SEED = tf.constant([1, 2]), tf.constant([3, 4])


# Steps of a memory's burn-in, and of a return.
BURN_IN, N_STEP = 2, 3


def make_memory_config():
  config = catalog.algorithms()["td3"].get_config("pendulum")
  config.network.update(
    {"hidden_sizes": (16, 16), "core": "gru", "core_size": 5}
  )
  config.learner.target_noise = 0.0
  config.adder.update(
    {
      "unroll": STEPS - BURN_IN,
      "burn_in": BURN_IN,
      "n_step": N_STEP,
      "period": 5,
    }
  )
  return config


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
  if chosen.cost is not None:
    values = values - chosen.cost.numpy()
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


class MemoryNetworks:
  """The networks of a learner with a memory, and its evaluation."""

  def __init__(self):
    config = make_memory_config()
    builder, spec = collected.build(config)
    builder.check(config, spec)
    settings = layers.TorsoSettings.from_config(config.network)
    settings = settings._replace(sizes=(16,))
    encoder = encoder_network.RecurrentEncoder(
      spec, settings, cores.make(config.network)
    )
    self.critics = critics_lib.Critics(config, encoder.spec, encoder)
    policy = improvement.make_improvement(
      config,
      encoder.spec,
      policy_network.PolicyNetwork(encoder.spec, settings, "deterministic"),
    )
    self.networks = {**self.critics.checkpointed, **policy.checkpointed}
    for name in ("target_encoder", "target_critics", "target_policy"):
      for variable in self.networks[name].trainable_variables:
        variable.assign_add(tf.fill(variable.shape, 0.05))
    self.evaluation = evaluation.make_evaluation(
      config, normalizer.Normalizer(config, spec), self.critics, policy
    )

  def make_inputs(self, data):
    return self.evaluation.make_inputs(
      to_tensors(data), tf.constant(WEIGHTS), None, ACTION_SEED, CRITIC_SEED
    )

  def features(self, encoder, data):
    """Returns the features [B, T + 1, F] of one step after the other."""
    state, found = data.extras[recurrent.STATE], []
    action = np.concatenate([data.action_before[:, None], data.action], 1)
    reward = np.concatenate([data.reward_before[:, None], data.reward], 1)
    for t in range(STEPS + 1):
      step = (data.observation, action, reward, data.first)
      x, state = self.networks[encoder](*(part[:, t] for part in step), state)
      found.append(x.numpy())
    return np.stack(found[BURN_IN:], 1)


def make_memory_sequences():
  state = np.random.default_rng(1).normal(size=(BATCH, 5)).astype(np.float32)
  return make_sequences()._replace(extras={recurrent.STATE: state})


def test_a_memory_starts_from_the_workers_state_and_targets_have_n_steps():
  own, data = MemoryNetworks(), make_memory_sequences()
  found = own.make_inputs(data)
  online = own.features("encoder", data)
  target = own.features("target_encoder", data)
  late = data._replace(
    **{
      name: getattr(data, name)[:, BURN_IN:]
      for name in ("action", "reward", "discount", "ended", "first")
    }
  )
  steps = learned_steps(late)
  np.testing.assert_allclose(
    found.encode(), [online[b, t] for b, t in steps], rtol=1e-5, atol=1e-6
  )
  expected = []
  for b, t in steps:
    total, weight, end = 0.0, 1.0, t
    for end in range(t, min(t + N_STEP, STEPS - BURN_IN)):
      total += weight * late.reward[b, end]
      weight *= late.discount[b, end]
      if late.ended[b, end]:
        break
    x = target[b, end + 1][None]
    action = own.networks["target_policy"](x)
    values = own.networks["target_critics"](x, action)[0, :, 0]
    expected.append(total + weight * min(values.numpy()))
  outputs = tf.zeros([len(steps), 2, 1])
  with tf.GradientTape() as tape:
    tape.watch(outputs)
    loss = found.loss(outputs).loss
  np.testing.assert_allclose(
    -tape.gradient(loss, outputs)[:, 0, 0], expected, rtol=1e-4, atol=1e-4
  )


def test_the_critics_train_the_memory():
  own, data = MemoryNetworks(), make_memory_sequences()
  before = [v.numpy() for v in own.networks["encoder"].trainable_variables]
  own.critics.update(own.make_inputs(data), tf.constant(1e-2), None)
  after = [v.numpy() for v in own.networks["encoder"].trainable_variables]
  changed = [not np.array_equal(*x) for x in zip(before, after, strict=True)]
  assert all(changed)


def test_a_worker_stores_the_memory_also_of_random_steps():
  config = make_memory_config()
  config.exploration.random_steps = 8
  config.topology.environments_per_worker = 2
  builder, spec = collected.build(config)
  actor = builder.make_actor(config, spec, 0)
  actor.load(builder.make_learner(config, spec).get_variables())
  random, states = np.random.default_rng(0), []
  for t in range(6):
    observation = random.normal(size=(2, 3)).astype(np.float32)
    found = actor.act(
      observation, np.zeros(2, np.float32), np.array([t == 0, t == 0])
    )
    states.append(found.extras[recurrent.STATE].copy())
  assert not states[0].any()
  assert all(x.any() for x in states[1:])
