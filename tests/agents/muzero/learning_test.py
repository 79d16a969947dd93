"""Tests of MuZero: searches, stored policies, learned steps and priorities."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.muzero import acting
from slipway.agents.networks import network as network_lib
from slipway.configs import muzero
from slipway.replay.items import adder as adder_lib
from slipway.replay.items import priorities
from tests.agents import collected

ENVS, N_STEP, UNROLL = 8, 3, 4


def make_config(**changes):
  config = muzero.get_config("cartpole")
  config.network.update(hidden_sizes=(16, 12), latent_size=6)
  config.adder.update(n_step=N_STEP, unroll=UNROLL, period=2, discount=0.997)
  config.search.simulations = 4
  config.learner.batch_size = 64
  config.topology.environments_per_worker = ENVS
  config.update_from_flattened_dict(changes)
  return config


def make_batch(config, learner):
  return collected.collect_batch(config, learner.get_variables(), 64)


def make_continuous_config():
  config = muzero.get_config("pendulum")
  config.network.update(hidden_sizes=(16, 12), latent_size=6)
  config.adder.update(n_step=N_STEP, unroll=UNROLL)
  config.search.update(simulations=4, sampled_actions=5, considered_actions=3)
  config.learner.update(batch_size=64, learning_rate=0.01)
  config.topology.environments_per_worker = ENVS
  return config


def change(batch, field, values):
  return batch._replace(data=batch.data._replace(**{field: values}))


def test_losses_of_a_fixed_batch_fall():
  config = make_config(**{"learner.learning_rate": 0.01})
  learner = collected.make_learner(config)
  batch = make_batch(config, learner)
  # The prior is uniform before the first update.
  policy = np.tile(np.float32([0.95, 0.05]), (64, UNROLL + N_STEP, 1))
  extras = {acting.POLICY: tf.constant(policy, tf.float32)}
  batch = change(batch, "extras", extras)
  update = collected.make_update(learner)
  found = [update(batch) for _ in range(200)]
  first, last = (x.metrics for x in (found[0], found[-1]))
  for name in ("loss", "policy_loss", "value_loss", "consistency_loss"):
    assert last[name] < first[name] - 0.1, name
  # A reward of 1 is between the atoms 0 and 1, so its cross-entropy is that.
  h = np.sqrt(2) - 1 + 1e-3
  entropy = -h * np.log(h) - (1 - h) * np.log(1 - h)
  assert first["reward_loss"] > 1.2 * entropy
  assert last["reward_loss"] < 1.1 * entropy

  assert learner.steps.numpy() == 200


def test_steps_after_the_end_of_an_episode_are_not_learned_from():
  config = make_config()
  learner = collected.make_learner(config)
  batch = make_batch(config, learner)
  ended, first = batch.data.ended.numpy(), batch.data.first.numpy()
  # A sequence whose episode ends in step t, and is reset in the next one.
  b, t = next(
    (b, t)
    for b, t in zip(*np.nonzero(ended), strict=True)
    if t < UNROLL - 1 and not first[b, 1 : t + 2].any()
  )
  assert first[b, t + 2]

  def losses(changed):
    return collected.update_on_each(learner, [batch, changed])

  later = batch.data.reward.numpy()
  later[b, t + 1 :] = 7.0
  before, after = losses(change(batch, "reward", tf.constant(later)))
  assert before["loss"] == after["loss"]
  policy = batch.data.extras[acting.POLICY].numpy()
  policy[b, t + 1 :] = [0.9, 0.1]
  extras = {acting.POLICY: tf.constant(policy)}
  before, after = losses(change(batch, "extras", extras))
  assert before["loss"] == after["loss"]
  own = batch.data.reward.numpy()
  own[b, t] = 7.0
  before, after = losses(change(batch, "reward", tf.constant(own)))
  assert before["reward_loss"] != after["reward_loss"]
  assert before["value_loss"] != after["value_loss"]


def test_searches_avoid_actions_that_end_episodes():
  """The second action ends each episode, and all steps have the same reward."""
  config = make_config(**{"learner.learning_rate": 0.01, "adder.discount": 0.9})
  learner = collected.make_learner(config)
  batch = make_batch(config, learner)
  ends = batch.data.action == 1
  for name, values in (
    ("ended", ends),
    ("discount", 0.9 * tf.cast(~ends, tf.float32)),
    ("first", tf.pad(ends, ((0, 0), (1, 0)))),
    ("reward", tf.ones_like(batch.data.reward)),
    ("extras", {acting.POLICY: 0.5 * tf.ones((*ends.shape, 2))}),
  ):
    batch = change(batch, name, values)
  update = collected.make_update(learner)
  found = [update(batch).metrics["end_loss"] for _ in range(100)]
  assert found[-1] < 0.1 * found[0]
  builder, spec = collected.build(config)
  actor = builder.make_actor(config, spec, 0)
  actor.load(learner.get_variables())
  zeros = np.zeros(64, np.float32)
  output = actor.act(batch.data.observation[:, 0].numpy(), zeros, zeros > 0)
  assert (output.extras[acting.POLICY][:, 0] > 0.9).all()


def test_priorities_are_errors_of_the_first_return():
  config = make_config(**{"replay.sampler": "prioritized"})
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  adder = builder.make_adder(config, spec)
  policy = np.full((ENVS, 2), 0.5, np.float32)
  no = np.zeros(ENVS, bool)
  observation, action = (
    np.zeros((ENVS, 4), np.float32),
    np.zeros(ENVS, np.int32),
  )
  ended = np.arange(ENVS) < 3  # in the second step, three of them terminated
  items = None
  for i in range(9):
    output = adder_lib.ActorOutput(action, {acting.POLICY: policy})
    is_last, is_reset = (ended if i == step else no for step in (1, 2))
    items = items or adder.add(
      *(observation, output, np.float32([1] * ENVS), is_last, no, is_reset),
      *(observation, 1),
    )
  batch = collected.make_batch(
    builder.make_table(config, spec).schema, items.data()
  )
  # The network's values are all v, which is 0 before the first update.
  found = learner.update(batch).priorities.numpy()
  v = learner.estimate_values(observation, action).numpy()
  assert abs(v).max() < 0.5
  gamma = config.adder.discount
  expected = np.where(ended, 1 + gamma, sum(gamma**i for i in range(3)))
  np.testing.assert_allclose(found, expected, atol=0.5)
  # New sequences get the highest one, as workers know no error.
  assert learner.get_variables()[priorities.HIGHEST] == found.max()


def test_returns_end_with_the_values_of_the_last_observations():
  config = make_config(**{"environment.time_limit": 12, "adder.n_step": 9})
  learner = collected.make_learner(config)
  batch = make_batch(config, learner)
  random = np.random.default_rng(0)
  for variable in learner.checkpointed["network"].variables:
    variable.assign(variable + 0.3 * random.normal(size=variable.shape))
  data = batch.data
  values = np.stack(
    [
      learner.estimate_values(x, None)
      for x in np.swapaxes(data.observation, 0, 1)
    ],
    axis=1,
  )
  found = learner.update(batch).priorities.numpy()
  kinds = set()
  for b in range(64):
    z, factor, t = 0.0, 1.0, 0
    while True:
      z += factor * data.reward[b, t].numpy()
      factor *= data.discount[b, t].numpy()
      t += 1
      if data.ended[b, t - 1] or t == 9:
        break
    error = abs(z + factor * values[b, t] - values[b, 0])
    if data.first[b, 1]:
      error = 0.0
    np.testing.assert_allclose(found[b], error + 1e-6, rtol=1e-3, atol=1e-4)
    kinds.add((t == 9, bool(factor)))
  assert {(True, True), (False, True)} <= kinds


@pytest.mark.parametrize("normalized", [False, True])
def test_workers_and_learner_compute_the_same(normalized):
  config = make_config(**{"normalization.observations": normalized})
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  learner.update(make_batch(config, learner))
  random = np.random.default_rng(0)
  for variable in learner.checkpointed["network"].variables:
    variable.assign(variable + 0.3 * random.normal(size=variable.shape))
  acting_network = network_lib.make_acting(builder.make_network(config, spec))
  acting_network.load(learner.get_variables())
  observation = random.normal(size=(5, 4)).astype(np.float32)
  found = acting_network(observation)
  expected = learner.estimate_values(observation, np.zeros(5, np.int32))
  np.testing.assert_allclose(found.value, expected, rtol=1e-3, atol=1e-4)
  assert found.state.min() == 0 and found.state.max() > 0.99


def test_another_actor_continues_equally():
  config = make_config()
  builder, spec = collected.build(config)
  variables = builder.make_learner(config, spec).get_variables()
  one, other = (builder.make_actor(config, spec, 0) for _ in range(2))
  one.load(variables)
  other.load(variables)
  random = np.random.default_rng(0)
  observations = random.normal(size=(20, ENVS, 4)).astype(np.float32)
  zeros = np.zeros(ENVS, np.float32)

  def steps(actor, observations):
    return [actor.act(x, zeros, zeros > 0) for x in observations]

  steps(one, observations[:10])
  other.set_state(one.get_state())
  actions = []
  for found, expected in zip(
    steps(other, observations[10:]), steps(one, observations[10:]), strict=True
  ):
    np.testing.assert_array_equal(found.action, expected.action)
    for name, wanted in expected.extras.items():
      np.testing.assert_array_equal(found.extras[name], wanted)
    actions.append(found.action)
  # Searches have noise, but not those of evaluations.
  greedy = builder.make_greedy_actor(config, spec)
  greedy.load(variables)
  first, second = (
    [x.action for x in steps(greedy, observations[10:])] for _ in range(2)
  )
  np.testing.assert_array_equal(first, second)
  assert (np.array(actions) != first).any()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_workers_take_random_actions(share):
  """The prior and the search would always choose the first action."""
  config = make_config(**{"search.random_share": share})
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  for variable in learner.checkpointed["network"].trainable_variables:
    if variable.shape == (2,):  # the bias of the policy's logits
      variable.assign([40.0, 0.0])
  zeros = np.zeros(1_000, np.float32)
  observation = np.random.default_rng(0).normal(size=(1_000, 4))
  found = []
  for actor in (
    builder.make_actor(config, spec, 0),
    builder.make_greedy_actor(config, spec),
  ):
    actor.load(learner.get_variables())
    output = actor.act(observation.astype(np.float32), zeros, zeros > 0)
    assert (output.extras[acting.POLICY][:, 0] > 0.99).all()
    found.append(output.action.mean())
  worker, greedy = found
  assert greedy == 0
  assert worker == pytest.approx(share / 2, abs=0.05 * bool(share))


def test_continuous_actions_become_those_that_searches_prefer():
  config = make_continuous_config()
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  batch = make_batch(config, learner)
  samples = batch.data.extras[acting.SAMPLES].numpy()
  assert samples.shape == (64, UNROLL + N_STEP, 5, 1)
  assert abs(samples).max() <= 1 and samples.std() > 0.3
  # Each action is one of the samples of its step.
  differences = samples - batch.data.action.numpy()[:, :, None]
  assert not abs(differences).min(axis=2).any()
  # The highest of the samples has all weight.
  best = np.eye(5, dtype=np.float32)[samples[..., 0].argmax(axis=2)]
  extras = {**batch.data.extras, acting.POLICY: tf.constant(best)}
  update = collected.make_update(learner)
  found = [update(change(batch, "extras", extras)) for _ in range(60)]
  assert found[-1].metrics["policy_loss"] < found[0].metrics["policy_loss"]
  greedy = builder.make_greedy_actor(config, spec)
  greedy.load(learner.get_variables())
  observation = batch.data.observation[:, 0].numpy()
  zeros = np.zeros(64, np.float32)
  one, other = (greedy.act(observation, zeros, zeros > 0) for _ in range(2))
  np.testing.assert_array_equal(one.action, other.action)
  # Expectation of the highest of five samples: tanh of 1.16 deviations.
  assert 0.6 < np.median(one.extras[acting.SAMPLES][:, 0]) < 0.95


def test_a_search_of_continuous_actions_finds_the_better_ones():
  """A model whose reward is the action is learned, so high ones are best."""
  config = make_continuous_config()
  config.search.simulations = 20
  builder, spec = collected.build(config)
  learner = builder.make_learner(config, spec)
  batch = make_batch(config, learner)
  rewards = 10 * batch.data.action[..., 0]
  update = collected.make_update(learner)
  for _ in range(150):
    update(change(batch, "reward", rewards))
  actor = builder.make_actor(config, spec, 0)
  actor.load(learner.get_variables())
  observation = batch.data.observation[:, 0].numpy()
  zeros = np.zeros(64, np.float32)
  output = actor.act(observation, zeros, zeros > 0)
  samples = output.extras[acting.SAMPLES][..., 0]
  policy = output.extras[acting.POLICY]
  order = np.argsort(samples, axis=1)
  best = np.take_along_axis(policy, order, axis=1)
  assert best[:, -1].mean() > 2 * best[:, 0].mean()
  assert (output.action[:, 0] - samples.mean(axis=1)).mean() > 0.1
