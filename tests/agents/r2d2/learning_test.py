"""Tests of R2D2: priorities of sequences, learned steps, and memory."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import epsilon_greedy, registry
from slipway.configs import r2d2
from slipway.replay.tables import dataset
from tests.environments import given

ENVS = 4


def make_config(**adder):
  config = r2d2.get_config()
  config.network.update({"hidden_sizes": (8, 6), "core_size": 5})
  config.adder.update({"burn_in": 3, "unroll": 6, "period": 4, **adder})
  config.topology.environments_per_worker = ENVS
  config.learner.update({"batch_size": ENVS, "target_update_period": 1_000})
  return config


SPEC = given.spec_of()


def collect(config, variables, steps, seed=0):
  """Returns an actor's items in random episodes, ENVS at a time."""
  builder = registry.make_builder("r2d2")
  actor = builder.make_actor(config, SPEC, worker=0)
  actor.load(variables)
  adder = builder.make_adder(config, SPEC)
  random = np.random.default_rng(seed)
  first, ended = np.ones(ENVS, bool), np.zeros(ENVS, bool)
  reward = np.zeros(ENVS, np.float32)
  found = []
  for _ in range(steps):
    observation = random.normal(size=(ENVS, 4)).astype(np.float32)
    output = actor.act(observation, reward, first)
    first = ended
    reward = np.where(first, 0, random.normal(size=ENVS)).astype(np.float32)
    ended = ~first & (random.random(ENVS) < 0.15)
    terminated = ended & (random.random(ENVS) < 0.5)
    items = adder.add(
      observation,
      output,
      reward,
      terminated,
      ended & ~terminated,
      first,
      observation,
      1,
    )
    if items is not None:
      found.append(items)
  return found


def make_batch(config, records):
  table = registry.make_builder("r2d2").make_table(config, SPEC)
  return dataset.make_batch(
    table.schema,
    tf.range(ENVS, dtype=tf.int64),
    tf.fill([ENVS], tf.constant(0.01, tf.float64)),
    tf.fill([ENVS], tf.constant(100, tf.int64)),
    tf.constant(records),
  )


@pytest.mark.parametrize("burn_in", [0, 3])
@pytest.mark.parametrize("n_step", [1, 5])
def test_initial_priorities_equal_those_of_the_learner(burn_in, n_step):
  """Before the first update, workers and learner have the same variables."""
  config = make_config(burn_in=burn_in, n_step=n_step)
  builder = registry.make_builder("r2d2")
  found = collect(
    config, builder.make_learner(config, SPEC).get_variables(), 40
  )
  assert len(found) > 5
  for items in found:
    learner = builder.make_learner(config, SPEC)
    found = learner.update(make_batch(config, items.records)).priorities
    np.testing.assert_allclose(found, items.priorities, rtol=1e-4, atol=1e-5)


def test_error_on_a_fixed_batch_falls():
  config = make_config()
  config.learner.learning_rate = 0.01
  learner = registry.make_builder("r2d2").make_learner(config, SPEC)
  items = collect(config, learner.get_variables(), 40)[-1]
  batch = make_batch(config, items.records)
  update = tf.function(learner.update, autograph=False)
  errors = [update(batch).priorities.numpy().mean() for _ in range(150)]
  assert errors[-1] < 0.5 * errors[0]
  assert learner.steps.numpy() == 150


def change(batch, field, value):
  return batch._replace(data=batch.data._replace(**{field: value}))


def test_burn_in_and_resets_are_not_learned_from():
  config = make_config()
  builder = registry.make_builder("r2d2")

  def loss(batch):
    learner = builder.make_learner(config, SPEC)
    return learner.update(batch).metrics["loss"].numpy()

  variables = builder.make_learner(config, SPEC).get_variables()
  items = collect(config, variables, 60)[-1]
  batch = make_batch(config, items.records)
  ended = batch.data.ended.numpy()
  # Finds an episode that ends before the window's last step: a reset follows.
  env, t = (int(x[0]) for x in np.nonzero(ended[:, 4:-1]))
  reset = t + 4 + 1
  assert batch.data.first.numpy()[env, reset + 1]
  reward = batch.data.reward.numpy()
  of_reset, of_step = reward.copy(), reward.copy()
  of_reset[env, reset] += 5.0
  of_step[env, reset - 1] += 5.0
  # The reward of a reset has no effect. Its error is masked, and the network's
  # state is reset at the start of an episode.
  assert loss(change(batch, "reward", tf.constant(of_reset))) == loss(batch)
  assert loss(change(batch, "reward", tf.constant(of_step))) != loss(batch)
  discount = np.zeros_like(batch.data.discount.numpy())
  discount[:, 3:] = batch.data.discount.numpy()[:, 3:]
  early = change(batch, "discount", tf.constant(discount))
  assert loss(early) == loss(batch)


def test_greedy_actors_remember_within_an_episode_only():
  config = make_config()
  builder = registry.make_builder("r2d2")
  actor = builder.make_greedy_actor(config, SPEC)
  actor.load(builder.make_learner(config, SPEC).get_variables())
  observation, reward = np.ones((2, 4), np.float32), np.zeros(2, np.float32)

  def value(*first):
    found = actor.act(observation, reward, np.array(first))
    return found.extras[epsilon_greedy.VALUE_OF_STATE].tolist()

  fresh = value(True, True)
  later = value(False, False)
  assert fresh[0] != later[0]
  mixed = value(True, False)
  assert mixed[0] == pytest.approx(fresh[0], rel=1e-5)
  assert mixed[1] not in (fresh[1], later[1])


def test_another_actor_continues_equally():
  config = make_config()
  builder = registry.make_builder("r2d2")
  variables = builder.make_learner(config, SPEC).get_variables()
  one, other = (builder.make_actor(config, SPEC, 0) for _ in range(2))
  one.load(variables)
  other.load(variables)
  random = np.random.default_rng(0)

  def steps(actor, observations):
    no, zeros = np.zeros(ENVS, bool), np.zeros(ENVS, np.float32)
    return [actor.act(x, zeros, no) for x in observations]

  observations = random.normal(size=(20, ENVS, 4)).astype(np.float32)
  steps(one, observations[:10])
  other.set_state(one.get_state())
  for found, expected in zip(
    steps(other, observations[10:]), steps(one, observations[10:]), strict=True
  ):
    np.testing.assert_array_equal(found.action, expected.action)
    assert found.extras.keys() == expected.extras.keys()
    for name, wanted in expected.extras.items():
      np.testing.assert_array_equal(found.extras[name], wanted)
