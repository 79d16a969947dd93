"""Tests of epsilon-greedy actors, and of their schedules of epsilons."""

import math
import pickle

import numpy as np
import pytest

from slipway.agents import epsilon_greedy, exploration
from slipway.agents.networks import q_network
from slipway.configs import dqn


class FixedValues:
  """Network with fixed values [B, A] for all observations."""

  def __init__(self, values):
    self._values = np.float32(values)

  def load(self, variables):
    self._values = np.float32(variables["values"])

  def __call__(self, observation, random=None):
    values = self._values[: len(observation)]
    return q_network.Output(values, values[:, :, None], None, None, values)


def make_epsilons(worker=0, workers=1, envs=8, env_steps=0, **fields):
  config = dqn.get_config()
  config.exploration.update(fields)
  config.topology.workers = workers
  config.topology.environments_per_worker = envs
  return exploration.EpsilonSchedule(
    config.exploration, config.topology, worker, env_steps
  )


def act(actor, envs):
  """Acts for one step of B environments, all with equal observations."""
  return actor.act(
    np.zeros((envs, 3)), np.zeros(envs, np.float32), np.zeros(envs, bool)
  )


@pytest.mark.parametrize(
  ("workers", "envs"), [(1, 2), (1, 8), (4, 1), (2, 8), (3, 5)]
)
def test_ladder_has_each_epsilon_of_horgan_once(workers, envs):
  total = workers * envs
  expected = [0.4 ** (1 + i / (total - 1) * 7) for i in range(total)]
  found = [
    make_epsilons(worker, workers, envs, schedule="ladder").next()
    for worker in range(workers)
  ]
  assert all(epsilons.shape == (envs,) for epsilons in found)
  np.testing.assert_allclose(
    sorted(np.concatenate(found)), sorted(expected), rtol=1e-12
  )


def test_each_worker_of_a_ladder_has_greedy_and_curious_environments():
  for worker in range(4):
    epsilons = make_epsilons(worker, 4, 8, schedule="ladder").next()
    assert epsilons.max() > 0.1 and epsilons.min() < 0.01


@pytest.mark.parametrize("workers", [0, 2])
def test_external_processes_fill_the_ladder(workers):
  found = [
    make_epsilons(worker, workers, 1, schedule="ladder").next()[0]
    for worker in range(workers, workers + 8)
  ]
  for count in (4, 8):  # some explore much, some little, however many there are
    some = np.array(found[:count])
    assert len(set(some)) == count
    assert (some > 0.02).any() and (some < 0.01).any()
  assert max(found) <= 0.4 and min(found) >= 0.4**8


def test_the_epsilon_of_a_run_without_workers_falls():
  epsilons = make_epsilons(0, 0, 1, decay_steps=10)
  found = [epsilons.next()[0] for _ in range(11)]
  np.testing.assert_allclose(found[-1], 0.05)


def test_ladder_is_constant_and_one_environment_has_its_base():
  epsilons = make_epsilons(0, 1, 4, schedule="ladder")
  np.testing.assert_array_equal(epsilons.next(), epsilons.next())
  np.testing.assert_allclose(
    make_epsilons(0, 1, 1, schedule="ladder").next(), [0.4]
  )


@pytest.mark.parametrize("workers", [1, 5])
def test_linear_schedule(workers):
  epsilons = make_epsilons(
      0, workers, 4, schedule="linear", epsilon_start=0.9, epsilon_end=0.1,
      decay_steps=400,
  )  # fmt: skip
  calls = 400 // (4 * workers)  # calls per worker, for 400 steps of all workers
  found = np.array([epsilons.next() for _ in range(calls + 3)])
  assert found.shape == (calls + 3, 4)
  np.testing.assert_array_equal(found[0], np.full(4, 0.9))
  np.testing.assert_allclose(found[calls // 2], np.full(4, 0.5))
  assert (found[calls - 1] > 0.1 + 1e-3).all()
  np.testing.assert_allclose(found[calls:], 0.1)
  np.testing.assert_allclose(
    np.diff(found[: calls + 1], 2, axis=0), 0, atol=1e-9
  )


@pytest.mark.parametrize("workers", [1, 5])
def test_a_schedule_continues_after_the_steps_of_an_earlier_process(workers):
  whole, later = (
    make_epsilons(0, workers, 4, env_steps, decay_steps=400)
    for env_steps in (0, 4 * 7)
  )
  expected = [whole.next() for _ in range(110)][7:]
  found = [later.next() for _ in range(103)]
  np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("schedule", ["linear", "ladder"])
def test_an_actor_continues_equally(schedule):
  def make(seed):
    epsilons = make_epsilons(schedule=schedule, decay_steps=500)
    return epsilon_greedy.EpsilonGreedyActor(
      FixedValues(np.eye(8, 5)), epsilons, seed
    )

  def act_often(actor):
    return np.array([act(actor, 8).action for _ in range(30)])

  actor, other = make(1), make(2)
  act_often(actor)
  state = pickle.loads(pickle.dumps(actor.get_state()))
  expected = act_often(actor)
  assert (act_often(other) != expected).any()
  other.set_state(state)
  np.testing.assert_array_equal(act_often(other), expected)


def test_greedy_actor_is_deterministic():
  random = np.random.default_rng(0)
  values = random.normal(size=(16, 6))
  actor = epsilon_greedy.EpsilonGreedyActor(FixedValues(values), 0.0, seed=1)
  for _ in range(20):
    action, extras = act(actor, 16)
    np.testing.assert_array_equal(action, values.argmax(axis=1))
    assert action.dtype == np.int32
    for name in (epsilon_greedy.VALUE_OF_ACTION, epsilon_greedy.VALUE_OF_STATE):
      np.testing.assert_array_equal(
        extras[name], np.float32(values).max(axis=1)
      )


def test_values_belong_to_the_chosen_action():
  values = np.float32(np.random.default_rng(0).normal(size=(8, 5)))
  actor = epsilon_greedy.EpsilonGreedyActor(
    FixedValues(values), make_epsilons(epsilon_end=1.0), seed=2
  )
  explored = 0
  for _ in range(20):
    action, extras = act(actor, 8)
    np.testing.assert_array_equal(
      extras[epsilon_greedy.VALUE_OF_ACTION], values[np.arange(8), action]
    )
    np.testing.assert_array_equal(
      extras[epsilon_greedy.VALUE_OF_STATE], values.max(axis=1)
    )
    explored += (action != values.argmax(axis=1)).sum()
  assert explored > 0


@pytest.mark.parametrize(
  ("epsilon", "evaluates"),
  [(0.0, False), (0.05, True), (0.5, False), (1.0, True)],
)
def test_frequencies_of_actions(epsilon, evaluates):
  actions, calls, envs = 4, 1_000, 8
  scheduled = make_epsilons(epsilon_start=epsilon, epsilon_end=epsilon)
  epsilons = epsilon if evaluates else scheduled
  actor = epsilon_greedy.EpsilonGreedyActor(
    FixedValues(np.tile([0, 1, 0, 0], (envs, 1))), epsilons, seed=3
  )
  counts = np.zeros(actions)
  for _ in range(calls):
    counts += np.bincount(act(actor, envs).action, minlength=actions)
  expected = np.full(actions, epsilon / actions)
  expected[1] += 1 - epsilon
  # The counts are within five standard deviations of a binomial.
  total = calls * envs
  for count, p in zip(counts, expected, strict=True):
    assert abs(count - p * total) <= 5 * math.sqrt(p * (1 - p) * total) + 1e-9


def test_each_environment_explores_by_its_own_epsilon():
  epsilons = make_epsilons(envs=4, schedule="ladder")
  actor = epsilon_greedy.EpsilonGreedyActor(
    FixedValues(np.tile([1, 0], (4, 1))), epsilons, seed=4
  )
  calls = 4_000
  explored = sum(act(actor, 4).action for _ in range(calls)) / calls
  p = epsilons.next() / 2  # half of the random actions are greedy
  np.testing.assert_array_less(
    np.abs(explored - p), 5 * np.sqrt(p * (1 - p) / calls)
  )
