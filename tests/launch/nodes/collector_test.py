"""Tests of the collector: each step except an autoreset counts exactly once."""

import pickle

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.envs import registration
from gymnasium.envs.classic_control import cartpole

from slipway.agents import core, highest_priority, registry
from slipway.configs import catalog, dqn
from slipway.environments import factory, recordings, user_code
from slipway.launch.nodes import collector as collector_lib
from slipway.replay.items import transitions
from slipway.replay.tables import dataset
from tests.agents import collected

NUM_ENVS = 4
STEPS = 250  # calls, in which each environment plays some ten episodes


def make_config(n_step=1, environment="CartPole-v1"):
  config = dqn.get_config()
  config.environment.name = environment
  config.network.hidden_sizes = (8,)
  config.topology.environments_per_worker = NUM_ENVS
  config.adder.n_step = n_step
  return config


def make_collector(config, worker=0, **restarts):
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  collector = collector_lib.Collector(config, spec, builder, worker, **restarts)
  collector.load(1, builder.make_learner(config, spec).get_variables())
  return collector, builder.make_table(config, spec).schema


@pytest.mark.parametrize(
  "name", ["rainbow:cartpole", "d4pg:pendulum", "mpo:pendulum"]
)
def test_new_items_have_the_highest_priority_so_far(name):
  """p_t = max_{i<t} p_i, p_1 = 1: Schaul et al. 2016, algorithm 1."""
  algorithm, _, preset = name.partition(":")
  config = catalog.algorithms()[algorithm].get_config(preset)
  config.network.hidden_sizes = (8,)
  config.topology.environments_per_worker = NUM_ENVS
  if algorithm == "mpo":  # with sequences
    config.learner.critic_target = "retrace"
    config.replay.update(sampler="prioritized", transitions_per_item=1)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  collector = collector_lib.Collector(config, spec, builder, worker=0)
  learner = builder.make_learner(config, spec)
  table = builder.make_table(config, spec)
  seen, found = [1.0], []
  for version in range(1, 9):
    collector.load(version, learner.get_variables())
    data = []
    while sum(map(len, data)) < 4:
      items = collector.step()
      if items is not None:
        data.append(items.data())
        expected = np.full(len(data[-1]), max(seen), np.float32)
        np.testing.assert_array_equal(items.priorities, expected)
        found.append(max(seen))
    batch = collected.make_batch(table.schema, np.concatenate(data)[:4])
    # Rewards of 100 in the fifth round: large errors.
    fields = batch.data._asdict()
    reward = "reward" if "reward" in fields else "r_t"
    fields[reward] = fields[reward] * (100.0 if version == 5 else 1.0)
    batch = batch._replace(data=type(batch.data)(**fields))
    new = learner.update(batch).priorities.numpy()
    seen += new.reshape(4, -1).mean(axis=1).tolist()
  assert found[0] == 1.0
  assert len(set(found)) > 1 and found[-1] > 1.0


def test_a_priority_that_is_not_finite_is_not_passed_on():
  priority = highest_priority.HighestPriority(is_used=True)
  batch = dataset.Batch(None, keys=tf.range(3))
  for values in ([2.0, np.nan, np.inf], [0.5, 1.5, 1.0]):
    priority.add(core.Update({}, tf.constant(values)), batch)
  assert priority.get_variables() == {"highest_priority": 2.0}


@pytest.fixture
def recorded(monkeypatch):
  """Returns a list that collects all steps of batches of environments.

  It has the steps of all batches that are made after this call.
  """
  steps, make = [], factory.make

  def make_and_record(*args, **kwargs):
    environment = make(*args, **kwargs)
    step = environment.step
    if environment.num_envs == 1:  # only made for its spec
      return environment

    def step_and_record(actions):
      steps.append(step(actions))
      return steps[-1]

    environment.step = step_and_record
    return environment

  monkeypatch.setattr(factory, "make", make_and_record)
  return steps


def open_transitions(steps, n_step):
  """Returns how many transitions are unfinished: at most n_step per episode."""
  lengths = np.zeros(NUM_ENVS, np.int64)  # of the current episodes
  for step in steps:
    lengths = np.where(step.first, 0, lengths + 1)
  return int(np.minimum(lengths, n_step).sum())


class Counted(cartpole.CartPoleEnv):
  """An environment that counts the resets of all its instances."""

  resets = 0

  def reset(self, **kwargs):
    Counted.resets += 1
    return super().reset(**kwargs)


def test_the_first_step_resets_the_environments(monkeypatch):
  """An earlier reset that hangs would not be detected."""
  monkeypatch.setitem(
    gymnasium.registry,
    "Counted-v0",
    registration.EnvSpec("Counted-v0", entry_point=Counted),
  )
  monkeypatch.setattr(Counted, "resets", 0)
  collector, _ = make_collector(make_config(environment="Counted-v0"))
  before = Counted.resets  # by the environment that was made for the spec
  collector.step()
  assert Counted.resets == before + NUM_ENVS


def test_an_environment_of_other_spaces_than_the_runs_is_rejected():
  config, other = make_config(), make_config(environment="Acrobot-v1")
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  with pytest.raises(user_code.UserCodeError) as caught:
    collector_lib.Collector(other, spec, builder, worker=1)
  assert caught.value.line.startswith("environment Acrobot-v1: observations")
  assert "float32 [6] from" in caught.value.line
  assert "float32 [4] from" in caught.value.line
  assert "\n" not in caught.value.line


@pytest.mark.parametrize("n_step", [1, 3])
def test_every_step_becomes_one_transition(recorded, n_step):
  collector, schema = make_collector(make_config(n_step))
  items = 0
  for _ in range(STEPS):
    new = collector.step()
    if new is not None:
      assert new.records.shape == (
        len(new.priorities),
        schema.record.record_bytes,
      )
      assert (new.priorities > 0).all()
      items += len(new.records)
    firsts = sum(int(step.first.sum()) for step in recorded)
    assert collector.env_steps == len(recorded) * NUM_ENVS - firsts
    assert items == collector.env_steps - open_transitions(recorded, n_step)
  assert firsts > 2 * NUM_ENVS, "there were autoresets to leave out"
  collector.close()


def test_transitions_are_those_of_the_environments(recorded):
  collector, schema = make_collector(make_config())
  assert collector.step() is None
  for _ in range(40):
    fields = schema.record.unpack(collector.step().records)
    before = recorded[-2]
    real = ~before.first
    np.testing.assert_array_equal(fields["o_t"], before.observation[real])
    np.testing.assert_array_equal(fields["r_t"], before.reward[real])
    np.testing.assert_array_equal(
      fields["discount_t"] == 0.0, before.terminated[real]
    )
  collector.close()


def test_transitions_have_the_version_that_made_them(recorded):
  config = make_config()
  collector, schema = make_collector(config)
  learner = registry.make_builder(config.agent).make_learner(
    config, factory.make_spec(config.environment)
  )
  random, version = np.random.default_rng(0), 1
  collector.step()
  for _ in range(STEPS):
    made_by = version
    if random.random() < 0.3:
      version += int(random.integers(1, 4))  # some versions are skipped
      collector.load(version, learner.get_variables())
    fields = schema.record.unpack(collector.step().records)
    np.testing.assert_array_equal(fields[transitions.VERSION], made_by)
  assert version > 50
  collector.close()


def test_the_training_return_is_the_mean_of_the_last_episodes(recorded):
  collector, _ = make_collector(make_config())
  assert collector.training_return is None
  running, ended = np.zeros(NUM_ENVS), []
  for _ in range(STEPS):
    collector.step()
    step = recorded[-1]
    running += step.reward
    for env in np.flatnonzero(step.terminated | step.truncated):
      ended.append(running[env])
      running[env] = 0.0
  assert len(ended) > 20
  assert collector.training_return == pytest.approx(np.mean(ended[-20:]))
  collector.close()


def run(collector, steps):
  """Returns the bytes of all records that a collector makes, and its return."""
  made = [collector.step() for _ in range(steps)]
  records = [items.records for items in made if items is not None]
  return np.concatenate(records).tobytes(), collector.training_return


@pytest.mark.parametrize("n_step", [1, 5])
def test_a_collector_with_a_restored_state_continues_identically(n_step):
  config = make_config(n_step)
  config.exploration.decay_steps = 1_000
  collector, _ = make_collector(config)
  run(collector, 100)
  state = pickle.loads(pickle.dumps(collector.get_state(True)))
  expected = run(collector, STEPS)
  # The earlier steps of the other worker do not matter.
  other, _ = make_collector(config, worker=1)
  run(other, 30)
  other.set_state(state)
  assert run(other, STEPS) == expected
  assert other.env_steps < collector.env_steps


def test_a_state_without_environments_starts_new_episodes(recorded):
  config = make_config(3)
  collector, _ = make_collector(config)
  run(collector, 100)
  state = collector.get_state(False)
  recorded.clear()
  other, schema = make_collector(config)
  other.set_state(state)
  assert other.training_return == collector.training_return
  # The new episodes' transitions contain no data of the old episodes.
  made = [other.step() for _ in range(4)]
  assert [items is None for items in made] == [True] * 3 + [False]
  fields = schema.record.unpack(made[3].records)
  np.testing.assert_array_equal(fields["o_t"], recorded[2].observation)
  np.testing.assert_array_equal(
    collector._actor.get_state()["env_steps"] + 4 * NUM_ENVS,
    other._actor.get_state()["env_steps"],
  )


def test_another_incarnation_repeats_no_episode():
  records = collect(seed=1, worker=0)
  np.testing.assert_array_equal(records, collect(seed=1, worker=0, restarts=0))
  others = [collect(seed=1, worker=0, restarts=restarts) for restarts in (1, 2)]
  for other in others:
    # Records are practically unique, because their observations are floats.
    common = {record.tobytes() for record in records} & {
      record.tobytes() for record in other
    }
    assert len(records) > 100 and not common
  assert not np.array_equal(*others)


def test_another_incarnation_explores_as_much_as_the_last_one():
  config = make_config()
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  last = config.exploration.decay_steps
  for env_steps in (0, last // 2, last):
    collector = collector_lib.Collector(
      config, spec, builder, 0, restarts=1, earlier_env_steps=env_steps
    )
    actor = collector.get_state(with_environments=False)["actor"]
    assert actor["env_steps"] == env_steps
    assert collector.env_steps == 0
    collector.close()


def collect(seed, worker, **restarts):
  config = make_config()
  config.seed = seed
  collector, _ = make_collector(config, worker, **restarts)
  # The learner has the config's seed, too, so only the environments differ.
  made = [collector.step() for _ in range(30)]
  collector.close()
  return np.concatenate([items.records for items in made if items is not None])


def test_seeds():
  records = collect(seed=1, worker=0)
  np.testing.assert_array_equal(records, collect(seed=1, worker=0))
  assert not np.array_equal(records, collect(seed=1, worker=1))
  assert not np.array_equal(records, collect(seed=2, worker=0))


class Unseeded(cartpole.CartPoleEnv):
  """Environment that draws its first states from a global generator."""

  def reset(self, *, seed=None, options=None):
    super().reset(seed=seed, options=options)
    self.state = np.random.uniform(-0.05, 0.05, 4)  # noqa: NPY002 as users do
    return np.array(self.state, np.float32), {}


def test_global_generators_differ_between_nodes(monkeypatch):
  spec = registration.EnvSpec("Unseeded-v0", entry_point=Unseeded)
  monkeypatch.setitem(gymnasium.registry, "Unseeded-v0", spec)
  config = make_config(environment="Unseeded-v0")

  def play(worker, **restarts):
    np.random.seed(7)  # noqa: NPY002 nodes are forked with equal generators
    collector, _ = make_collector(config, worker, **restarts)
    made = [collector.step() for _ in range(5)]
    collector.close()
    return np.concatenate([x.records for x in made if x is not None])

  first = play(0)
  np.testing.assert_array_equal(first, play(0))
  for other in (play(1), play(0, restarts=1)):
    assert not np.array_equal(first, other)


def test_recording_changes_no_item(tmp_path):
  """With the share of 0.5, every second worker records, the first one too."""
  config = make_config()
  config.recording.path, config.recording.share = str(tmp_path), 0.5
  alone, _ = make_collector(make_config())
  recording, _ = make_collector(config)
  for _ in range(STEPS):
    items, others = alone.step(), recording.step()
    assert (items is None) == (others is None)
    if items is not None:
      np.testing.assert_array_equal(items.data(), others.data())
  recording.close()
  for worker in (1, 2):
    other, _ = make_collector(config, worker)
    for _ in range(STEPS):
      other.step()
    other.close()
  assert sorted(x.name for x in tmp_path.iterdir()) == [
    *("worker-0-000000-v0", "worker-2-000000-v0")
  ]
  spec = factory.make_spec(config.environment)
  episodes = recordings.read(tmp_path / "worker-0-000000-v0", spec)
  assert len(episodes.lengths) == recording.episodes > 10


def test_a_resumed_collector_records_the_episodes_that_it_begins(tmp_path):
  config = make_config()
  config.recording.path = str(tmp_path)
  first, _ = make_collector(config)
  for _ in range(STEPS):
    first.step()
  first.close()
  second, _ = make_collector(config)
  second.set_state(first.get_state(with_environments=True))
  for _ in range(STEPS):
    second.step()
  second.close()
  spec = factory.make_spec(config.environment)
  lengths = [
    recordings.read(tmp_path / f"worker-0-00000{i}-v0", spec).lengths
    for i in range(2)
  ]
  assert len(lengths[0]) == first.episodes
  # The first episodes of all environments are not whole.
  assert len(lengths[1]) == second.episodes - NUM_ENVS
