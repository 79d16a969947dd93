"""Collector: no step is lost, none is counted twice, autoresets are none."""

import numpy as np
import pytest

from agents import registry
from configs import dqn
from environments import factory
from launch import collector as collector_lib
from replay import transitions

NUM_ENVS = 4
STEPS = 250  # calls: some ten episodes of each environment


def make_config(n_step=1, environment="CartPole-v1"):
  config = dqn.get_config()
  config.environment.name = environment
  config.network.hidden_sizes = (8,)
  config.topology.environments_per_worker = NUM_ENVS
  config.adder.n_step = n_step
  return config


def make_collector(config, worker=0):
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  collector = collector_lib.Collector(config, spec, builder, worker)
  collector.load(1, builder.make_learner(config, spec).get_variables())
  return collector, builder.make_packing(spec)


@pytest.fixture
def recorded(monkeypatch):
  """Every batch of steps that environments made from now on return."""
  steps, make = [], factory.make

  def make_and_record(*args, **kwargs):
    environment = make(*args, **kwargs)
    step = environment.step

    def step_and_record(actions):
      steps.append(step(actions))
      return steps[-1]

    environment.step = step_and_record
    return environment

  monkeypatch.setattr(factory, "make", make_and_record)
  return steps


def open_transitions(steps, n_step):
  """How many transitions have not been handed out: n an episode at most."""
  lengths = np.zeros(NUM_ENVS, np.int64)  # of the running or ended episodes
  for step in steps:
    lengths = np.where(step.first, 0, lengths + 1)
  return int(np.minimum(lengths, n_step).sum())


@pytest.mark.parametrize("n_step", [1, 3])
def test_every_step_becomes_one_transition(recorded, n_step):
  collector, packing = make_collector(make_config(n_step))
  items = 0
  for _ in range(STEPS):
    new = collector.step()
    if new is not None:
      assert new.rows.shape == (len(new.priorities), packing.row_bytes)
      assert (new.priorities > 0).all()
      items += len(new.rows)
    firsts = sum(int(step.first.sum()) for step in recorded)
    assert collector.env_steps == len(recorded) * NUM_ENVS - firsts
    assert items == collector.env_steps - open_transitions(recorded, n_step)
  assert firsts > 2 * NUM_ENVS, "there were autoresets to leave out"
  collector.close()


def test_transitions_are_those_of_the_environments(recorded):
  collector, packing = make_collector(make_config())
  assert collector.step() is None
  for _ in range(40):
    fields = packing.unpack(collector.step().rows)
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
  collector, packing = make_collector(config)
  learner = registry.make_builder(config.agent).make_learner(
    config, factory.make_spec(config.environment)
  )
  random, version = np.random.default_rng(0), 1
  collector.step()
  for _ in range(STEPS):
    made_by = version
    if random.random() < 0.3:
      version += int(random.integers(1, 4))  # some are missed
      collector.load(version, learner.get_variables())
    fields = packing.unpack(collector.step().rows)
    np.testing.assert_array_equal(fields[transitions.VERSION], made_by)
  assert version > 50
  collector.close()


def test_the_training_return_is_of_the_last_episodes(recorded):
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


def collect(seed, worker):
  config = make_config()
  config.seed = seed
  collector, _ = make_collector(config, worker)
  # The learner's seed is the config's too: what differs is the environments.
  rows = [collector.step() for _ in range(30)]
  collector.close()
  return np.concatenate([items.rows for items in rows if items is not None])


def test_seeds():
  rows = collect(seed=1, worker=0)
  np.testing.assert_array_equal(rows, collect(seed=1, worker=0))
  assert not np.array_equal(rows, collect(seed=1, worker=1))
  assert not np.array_equal(rows, collect(seed=2, worker=0))
