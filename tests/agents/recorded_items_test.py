"""Tests of items of recorded episodes, against sums over each episode."""

import collections
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import core, recorded_items, registry
from slipway.agents.updates import recorded_updates
from slipway.configs import catalog
from slipway.environments import factory, recordings
from tests.environments import given, recorded

SHAPED = "tests.environments.shaped:Shaped-v0"


def make_config(algorithm, folder, **environment):
  module = catalog.algorithms()[algorithm]
  if "cartpole" in module.PRESETS:
    config = module.get_config("cartpole")
  else:
    config = module.get_config("generic")
    config.environment.name = "CartPole-v1"
  config.dataset.path = str(folder)
  config.topology.workers = 0
  if "replay" in config:
    config.replay.sampler = "uniform"
  config.network.hidden_sizes = (16, 16)
  config.environment.update(environment)
  return config


def collect(config):
  """Records episodes, and returns them with the batch of all their items."""
  recorded.record(config.dataset.path, config=config.environment)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  table, items = recorded_items.collect(
    config, spec, builder, tempfile.gettempdir()
  )
  data, _ = table.schema.unpack(items.reshape(-1, *table.schema.item_shape))
  return recordings.read(config.dataset.path, spec), data


def test_each_recorded_step_begins_one_transition(tmp_path):
  config = make_config("dqn", tmp_path / "d", reward_scale=0.5)
  config.adder.update({"n_step": 3, "discount": 0.9})
  episodes, data = collect(config)
  assert episodes.terminated.any()
  assert len(data.r_t) == len(episodes.actions)
  found = {
    (o.tobytes(), int(a)): (r, d, o_t)
    for o, a, r, d, o_t in zip(
      *(np.asarray(x) for x in (data.o_tm1, data.a_tm1, data.r_t)),
      *(np.asarray(x) for x in (data.discount_t, data.o_t)),
      strict=True,
    )
  }
  start = 0
  for e, length in enumerate(episodes.lengths):
    for i in range(length):
      steps = min(3, length - i)
      begin, end = start + i, start + i + steps
      rewards = 0.5 * episodes.rewards[begin:end]
      expected = sum(0.9**k * r for k, r in enumerate(rewards))
      bootstrap = 0.0 if episodes.terminated[end - 1] else 0.9**steps
      key = episodes.observations[begin + e].tobytes()
      r, d, o_t = found[key, int(episodes.actions[begin])]
      np.testing.assert_allclose((r, d), (expected, bootstrap), rtol=1e-5)
      np.testing.assert_array_equal(o_t, episodes.observations[end + e])
    start += length


@pytest.mark.parametrize("n_step", [1, 3])
def test_transitions_have_the_recorded_next_actions(tmp_path, n_step):
  """At an episode's end, which has none, the last action is repeated."""
  config = make_config("rebrac", tmp_path / "d", name="Pendulum-v1")
  config.environment.time_limit = 20
  config.adder.n_step = n_step
  episodes, data = collect(config)
  following = {}
  for e, end in enumerate(np.cumsum(episodes.lengths)):
    for i in range(end - episodes.lengths[e], end):
      after = min(i + n_step, end - 1)
      following[episodes.actions[i].tobytes()] = episodes.actions[after]
  assert len(data.a_t) == len(following)
  for before, after in zip(data.a_tm1.numpy(), data.a_t.numpy(), strict=True):
    np.testing.assert_array_equal(following[before.tobytes()], after)


def test_joint_actions_are_numbered(tmp_path):
  kwargs = {"action": "multi_discrete"}
  config = make_config("dqn", tmp_path / "d", name=SHAPED, kwargs=kwargs)
  spec = factory.make_spec(config.environment)
  episodes, data = collect(config)
  sizes = spec.actions.sizes
  numbers = np.ravel_multi_index(tuple(episodes.actions.T), sizes)
  assert sorted(np.asarray(data.a_tm1)) == sorted(numbers)


def test_sequences_continue_over_the_ends_of_episodes(tmp_path):
  config = make_config("r2d2", tmp_path / "d")
  config.adder.update({"burn_in": 2, "unroll": 6, "period": 6})
  episodes, data = collect(config)
  first, ended = np.asarray(data.first), np.asarray(data.ended)
  # A reset, which no loss includes, is between the two.
  assert first[0, 0] and first[:, 1:].any()
  np.testing.assert_array_equal(first[:, 2:], ended[:, :-1] & first[:, 2:])
  assert not np.asarray(data.extras["state"]).any()
  starts = np.asarray(data.observation)[first]
  begins = np.cumsum(episodes.lengths + 1) - episodes.lengths - 1
  known = {episodes.observations[i].tobytes() for i in begins}
  assert {x.tobytes() for x in starts} <= known


def test_frames_are_those_of_whole_observations(tmp_path):
  batches = []
  for stacked in (0, 4):
    config = make_config(
      "dqn",
      tmp_path / f"{stacked}",
      name=SHAPED,
      kwargs={"observation": "hw"},
      frame_stack=4,
    )
    config.adder.update({"n_step": 2, "stacked_frames": stacked})
    batches.append(collect(config)[1])
  for one, other in zip(*batches, strict=True):
    if one is not None:
      np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
  "algorithm", ["bc", "dqn", "c51", "r2d2", "sac", "iql", "bcq"]
)
def test_a_restored_learner_continues_with_the_same_batches(
  tmp_path, algorithm
):
  config = make_config(algorithm, tmp_path / "d")
  config.learner.batch_size = 8
  recorded.record(config.dataset.path)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  results = []
  for parts in ((4,), (1, 3)):
    learner = builder.make_learner(config, spec)
    for updates in parts:  # a new source for each part, as after a resume
      source = recorded_updates.RecordedUpdates(
        learner, config, spec, builder, tmp_path
      )
      last = source.run(updates)
      assert source.statuses() == []
    results.append(last.metrics)
  assert int(learner.steps) == 4
  assert results[0] == results[1]


@pytest.mark.parametrize("algorithm", ["bc", "dqn"])
def test_a_folder_that_does_not_exist_is_rejected(tmp_path, algorithm):
  config = make_config(algorithm, tmp_path / "none")
  spec = factory.make_spec(config.environment)
  with given.one_line(match="which does not exist"):
    recorded_items.check(config, spec, registry.make_builder(config.agent))


def test_too_few_steps_are_rejected(tmp_path):
  config = make_config("r2d2", tmp_path / "d")
  config.adder.update({"burn_in": 500, "unroll": 400})
  with pytest.raises(ValueError, match="too few steps for one item"):
    collect(config)


@pytest.mark.parametrize("size", [16, 1_000])
def test_an_epoch_has_each_item_once(tmp_path, size):
  """With fewer items than a batch, each one is as often in it as it can be."""
  config = make_config("dqn", tmp_path / "d")
  config.learner.batch_size = size
  _, data = collect(config)
  count = len(data.r_t)
  spec = factory.make_spec(config.environment)
  learner = CountingLearner()
  source = recorded_updates.RecordedUpdates(
    *(learner, config, spec, registry.make_builder(config.agent)),
    tmp_path,
  )
  epoch = max(1, count // size)
  source.run(2 * epoch)
  batches = np.reshape(learner.seen, (2, epoch * size, -1))
  known = {x.tobytes() for x in np.asarray(data.o_tm1)}
  for order in batches:
    seen = collections.Counter(x.tobytes() for x in order)
    assert set(seen) <= known
    assert max(seen.values()) == max(1, -(-size // count))
  assert batches[0].tobytes() != batches[1].tobytes()


class CountingLearner:
  """Learner that keeps the observations of its batches."""

  def __init__(self):
    self.steps = tf.Variable(tf.zeros((), tf.int64))
    self.seen = []

  def update(self, batch):
    with tf.control_dependencies(
      [tf.numpy_function(self._keep, [batch.data.o_tm1], [])]
    ):
      self.steps.assign_add(1)
    return core.Update({"loss": tf.constant(0.0)})

  def _keep(self, observation):
    self.seen.append(observation)


@pytest.mark.parametrize("algorithm", ["rainbow", "r2d2", "sac"])
def test_seed_and_step_determine_the_recorded_part_of_a_batch(
  tmp_path, algorithm
):
  config = make_config(algorithm, tmp_path / "d")
  config.replay.sampler = "prioritized"
  config.topology.workers = 1
  config.dataset.ratio = 0.25
  recorded.record(config.dataset.path)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  builder.check(config, spec)
  table, known = recorded_items.collect(config, spec, builder, tmp_path)
  size = config.learner.batch_size // table.schema.transitions_per_item
  assert (table.recorded, table.batch_size) == (size // 4, size - size // 4)
  learner = builder.make_learner(config, spec)
  found = []
  for step in (0, 1, 0):  # a new sampler for each, as after a resume
    learner.steps.assign(step)
    sample = recorded_updates.make_sampler(
      learner, config, spec, builder, table.recorded, tmp_path
    )
    items = sample().numpy()
    assert items.shape == (table.recorded, *table.schema.item_shape)
    found.append([x.tobytes() for x in items])
  assert {x for items in found for x in items} <= {x.tobytes() for x in known}
  assert found[0] == found[2] != found[1]
