"""Tests of normalization: statistics, acting networks, and checkpoints."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import normalizer, policies
from slipway.agents.networks import normalization
from slipway.configs import bc, c51, dqn, mpo, ppo, r2d2, sac
from slipway.replay.items import returns, transitions
from tests.agents import collected
from tests.environments import shaped

SCALES = np.array([1e-3, 1.0, 1e3, 1e6])
GET_CONFIG = {
  "dqn": dqn.get_config,
  "c51": c51.get_config,
  "r2d2": r2d2.get_config,
  "ppo": ppo.get_config,
  "sac": sac.get_config,
  "retrace": mpo.get_config,
}
# Algorithms with rollouts: the observation after a rollout starts the next one.
ROLLOUTS = ("ppo", "retrace")
POLICIES = ("ppo", "sac", "retrace")


def make_config(name, rewards=False):
  config = GET_CONFIG[name]()
  config.network.hidden_sizes = (16, 16)
  config.topology.environments_per_worker = 4
  config.normalization.observations = True
  if rewards:
    config.normalization.rewards = True
  if name == "ppo":
    config.learner.update({"epochs": 2, "minibatch_size": 64})
  if name == "r2d2":
    config.network.core_size = 8
    config.adder.update({"burn_in": 2, "unroll": 4, "period": 3})
  if name in ("sac", "retrace"):
    config.environment.time_limit = 30  # so that episodes end
  if name == "retrace":
    config.learner.update({"critic_target": "retrace", "batch_size": 8})
  return config


def make_statistics(batches):
  statistics = normalizer.RunningStatistics(batches[0].shape[1:], "any")
  update = tf.function(statistics.update, autograph=False)
  for batch in batches:
    update(tf.constant(batch))
  return statistics


@pytest.mark.parametrize(
  "sizes", [[1000], [1] * 20, [3, 500, 1, 64, 2], [5, 0, 7]]
)
def test_statistics_are_those_of_all_values(sizes):
  random = np.random.default_rng(0)
  batches = [
    (SCALES * random.normal(3.0, 1.0, (size, 4))).astype(np.float32)
    for size in sizes
  ]
  statistics = make_statistics(batches)
  values = np.concatenate(batches).astype(np.float64)
  assert statistics.count.numpy() == len(values)
  np.testing.assert_allclose(statistics.mean, values.mean(0), rtol=1e-12)
  scale = 1 / np.sqrt(values.var(0) + 1e-8)
  np.testing.assert_allclose(statistics.scale, scale, rtol=1e-6)


def test_a_batch_that_never_arrives_counts_for_nothing():
  statistics = normalizer.RunningStatistics((3,), "any")
  values = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
  dataset = tf.data.Dataset.from_tensor_slices(values)
  iterator = iter(dataset.batch(2, drop_remainder=True))

  @functools.partial(tf.function, autograph=False)
  def update_often():
    def update(i):
      statistics.update(next(iterator))
      return (i + 1,)

    tf.while_loop(lambda i: i < 5, update, (0,))

  with pytest.raises(tf.errors.OutOfRangeError):
    update_often()
  assert statistics.count.numpy() == 6
  np.testing.assert_allclose(statistics.mean, values.mean(0), atol=1e-6)


def learn(config, updates=2):
  """Returns a learner after some updates, and their batches."""
  learner = collected.make_learner(config)
  update = tf.function(learner.update, autograph=False)
  batches = []
  for _ in range(updates):
    items = config.learner.batch_size // config.replay.get(
      "transitions_per_item", 1
    )
    batches.append(
      collected.collect_batch(config, learner.get_variables(), items)
    )
    update(batches[-1])
  return learner, batches


def find_counted(batch, name):
  """Returns the observations [N, F] that the statistics count."""
  data = batch.data
  if isinstance(data, transitions.Transition):
    return data.o_tm1.numpy()
  found = data.observation.numpy()
  if name in ROLLOUTS:  # count each observation once
    found = found[:, :-1]
  return found.reshape(-1, found.shape[-1])


@pytest.mark.parametrize("name", GET_CONFIG)
def test_a_learner_publishes_the_statistics_of_its_batches(name):
  config = make_config(name)
  learner, batches = learn(config)
  prefix = f"{policies.POLICY}/" if name in POLICIES else ""
  variables = learner.get_variables()
  values = np.concatenate([find_counted(batch, name) for batch in batches])
  mean = variables[prefix + normalization.MEAN]
  scale = variables[prefix + normalization.SCALE]
  assert mean.dtype == scale.dtype == np.float32
  np.testing.assert_allclose(mean, values.mean(0), rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(scale, 1 / values.std(0), rtol=1e-3)


@pytest.mark.parametrize("name", ["dqn", "r2d2", "sac", "retrace"])
def test_prioritized_items_count_as_in_their_table(name):
  # In NumPy: an item that is sampled twice as often counts half as much.
  config = make_config(name)
  config.replay.update(sampler="prioritized", transitions_per_item=1)
  config.learner.batch_size = 8
  _, (batch,) = learn(config, updates=1)
  probability = np.random.default_rng(0).uniform(0.001, 0.1, 8)
  learner = collected.make_learner(config)
  batch = batch._replace(probabilities=tf.constant(probability))
  learner.update(batch)
  values = find_counted(batch, name).astype(np.float64)
  values = values.reshape(8, -1, values.shape[-1])
  count, mean, squares = 0.0, 0.0, 0.0
  for item, p in zip(values, probability, strict=True):
    count += len(item) / (100 * p)
    mean += item.sum(0) / (100 * p)
  mean /= count
  for item, p in zip(values, probability, strict=True):
    squares += ((item - mean) ** 2).sum(0) / (100 * p)
  variables = learner.get_variables()
  prefix = f"{policies.POLICY}/" if name in POLICIES else ""
  found = variables[prefix + normalization.MEAN]
  np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-6)
  found = variables[prefix + normalization.SCALE]
  scale = 1 / np.sqrt(squares / count + 1e-8)
  np.testing.assert_allclose(found, scale, rtol=1e-4)


def test_running_returns_count_as_in_their_table():
  config = make_config("sac", rewards=True)
  _, spec = collected.build(config)
  random = np.random.default_rng(0)
  values, rewards, weights = random.normal(size=(3, 2, 5))
  weights, first = np.abs(weights[:, 0]), values > 1
  found = normalizer.Normalizer(config, spec).normalize_rewards(
    *(tf.constant(x, tf.float32) for x in (rewards, values)),
    tf.constant(first),
    tf.constant(weights),
  )
  each = np.where(first, 0, weights[:, None])
  mean = np.average(values, weights=each)
  scale = 1 / np.sqrt(np.average((values - mean) ** 2, weights=each) + 1e-8)
  np.testing.assert_allclose(
    found, np.clip(rewards * scale, -10, 10), rtol=1e-5
  )


@pytest.mark.parametrize(
  ("name", "observation"),
  [("dqn", None), ("ppo", None), ("sac", None), ("ppo", "bytes")],
)
def test_an_acting_network_equals_the_learning_one(name, observation):
  """Normalization is a layer in NumPy, but a separate step in TensorFlow."""
  config = make_config(name)
  if observation:
    config.environment.update(shaped.config_of(observation=observation))
  builder, spec = collected.build(config)
  builder.check(config, spec)
  learner, batches = learn(config)
  actor = builder.make_greedy_actor(config, spec)
  actor.load(learner.get_variables())
  observation = find_counted(batches[0], name)[:32]
  normalize = normalizer.Normalizer(config, spec)
  for batch in batches:
    normalize.add_observations(find_counted(batch, name))
  inputs = normalize.normalize_observations(observation)
  assert abs(inputs).numpy().max() <= normalization.CLIP
  if name == "dqn":
    outputs = learner.checkpointed["online"](inputs).values.numpy()
  else:
    outputs = learner.checkpointed["policy"](inputs).numpy()
  expected = np.tanh(outputs[:, :1]) if name == "sac" else outputs.argmax(1)
  action = actor.act(
    observation, np.zeros(32, np.float32), np.zeros(32, bool)
  ).action
  np.testing.assert_allclose(action, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["dqn", "ppo", "sac", "retrace"])
def test_rewards_have_the_scale_of_running_returns(name):
  config = make_config(name, rewards=True)
  if name == "dqn":
    config.adder.n_step = 3
  if name == "ppo":
    config.learner.batch_size = 32
  learner, batches = learn(config, 1)
  (batch,) = batches
  if name in ROLLOUTS:
    values = batch.data.extras[returns.FIELD].numpy()
    values = values[~batch.data.first.numpy()[:, 1:]]
  else:
    values = batch.data.running_return.numpy()
  assert values.std() > 0.1
  statistics = learner.checkpointed["normalizer"]
  found = statistics.normalize_rewards(
    tf.constant([0.5]), tf.zeros([0])
  ).numpy()
  np.testing.assert_allclose(found, 0.5 / values.std(), rtol=1e-3)


def test_ppo_starts_at_ratios_of_one():
  """The statistics of a batch are used from the next update on."""
  config = make_config("ppo")
  config.learner.update({"epochs": 1, "minibatch_size": 256})
  learner, _ = learn(config)
  config.topology.environments_per_worker = 8
  batch = collected.collect_batch(
    config, learner.get_variables(), config.learner.batch_size
  )
  metrics = learner.update(batch).metrics
  assert abs(metrics["kl"]) < 1e-6
  assert metrics["clip_fraction"] == 0


@pytest.mark.parametrize(
  ("name", "rewards"),
  [("dqn", True), ("r2d2", False), ("ppo", True), ("retrace", True)],
)
def test_a_checkpoint_has_the_statistics(name, rewards, tmp_path):
  config = make_config(name, rewards)
  learner, _ = learn(config)
  other = collected.make_learner(config)
  collected.restore(learner, other, tmp_path)
  one, two = learner.get_variables(), other.get_variables()
  assert one.keys() == two.keys()
  for variable, value in one.items():
    np.testing.assert_array_equal(value, two[variable], err_msg=variable)


@pytest.mark.parametrize("get_config", [r2d2.get_config, bc.get_config])
def test_algorithms_that_cannot_normalize_rewards_have_no_such_field(
  get_config,
):
  assert "rewards" not in get_config().normalization
