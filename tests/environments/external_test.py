"""Tests of ExternalEnvironment: a worker is driven by the user's own loop."""

import threading

import gymnasium
import numpy as np
import pytest

from slipway.environments import external, factory
from tests.environments import given

_CARTPOLE = given.config_of("CartPole-v1")

ACTIONS = gymnasium.spaces.Discrete(2)


def make_observation(number):
  """Returns an observation that holds a number."""
  return np.full(4, number, np.float32)


class Worker:
  """Thread that steps an external environment, and keeps the steps."""

  def __init__(self, config=_CARTPOLE):
    self.environment, self.exchange = factory.make_external(config)
    self.exchange.set_should_stop(lambda: self.stop)
    self.stop, self.steps, self.actions = False, [], 0
    self._thread = threading.Thread(target=self._run, daemon=True)
    self._thread.start()

  def _run(self):
    try:
      self.steps.append(self.environment.reset())
      while True:
        self.actions += 1
        action = np.array([self.actions % 2], np.int32)
        self.steps.append(self.environment.step(action))
    except external.Interrupted:
      self.exchange.close()

  def end(self):
    self.stop = True
    self._thread.join(5)
    assert not self._thread.is_alive()


def test_a_loop_of_two_episodes():
  worker = Worker()
  act, observe = worker.exchange.act, worker.exchange.observe
  assert act(make_observation(0)) == 1
  observe(1.0, False, False, make_observation(1))
  assert act(make_observation(1)) == 0
  observe(2.0, False, True, make_observation(2))
  # The autoreset ignores the worker's third action.
  assert act(make_observation(10)) == 0
  observe(3, np.True_, False, make_observation(11))
  act(make_observation(20))
  worker.end()
  numbers = [step.observation[0, 0] for step in worker.steps]
  assert numbers == [0, 1, 2, 10, 11, 20]
  found = [
    (s.reward[0], s.terminated[0], s.truncated[0], s.first[0])
    for s in worker.steps
  ]
  assert found == [
    (0.0, False, False, True),
    (1.0, False, False, False),
    (2.0, False, True, False),
    (0.0, False, False, True),
    (3.0, True, False, False),
    (0.0, False, False, True),
  ]


@pytest.mark.parametrize("ended", [False, True])
def test_an_interrupted_reset_repeats_an_episodes_last_observation(ended):
  worker = Worker()
  worker.exchange.act(make_observation(0))
  worker.exchange.observe(1.0, ended, False, make_observation(1))
  worker.end()
  found = [
    (step.observation[0, 0], step.terminated[0], step.first[0])
    for step in worker.steps
  ]
  last = [(1, True, False), (1, False, True)] if ended else []
  assert found == [(0, False, True), *last]
  assert worker.actions == (3 if ended else 1)


def test_observations_are_copied():
  worker = Worker()
  observation = make_observation(7)
  worker.exchange.act(observation)
  observation[:] = 0.0
  worker.end()
  assert worker.steps[0].observation[0, 0] == 7.0


def observe(e, reward=1.0, terminated=False):
  e.act(make_observation(0))
  e.observe(reward, terminated, False, make_observation(1))


WRONG = {
  "act twice": (
    lambda e: [e.act(make_observation(x)) for x in range(2)],
    "act was called twice in a row",
  ),
  "observe first": (
    lambda e: e.observe(1.0, False, False, make_observation(0)),
    "observe was called before act",
  ),
  "shape": (lambda e: e.act(np.zeros(3)), r"shape \[3\], .*shape \[4\]"),
  "type": (lambda e: e.act(np.array(list("abcd"))), "no numbers"),
  "not finite": (lambda e: e.act(make_observation(np.nan)), "nan or inf"),
  "too large for float32": (lambda e: e.act(np.full(4, 1e300)), "at most"),
  "large reward": (lambda e: observe(e, 1e300), r"reward is 1e\+300"),
  "text as reward": (lambda e: observe(e, "3"), "reward is '3'"),
  "huge integer as reward": (lambda e: observe(e, 10**400), "reward is 1000"),
  "no reward": (lambda e: observe(e, None), "reward is None"),
  "flag": (lambda e: observe(e, terminated="no"), "terminated is 'no'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_changes_nothing(case):
  wrong, line = WRONG[case]
  worker = Worker()
  with given.one_line(ValueError, match=line):
    wrong(worker.exchange)
  if case in ("act twice", "flag") or "reward" in case:
    worker.exchange.observe(1.0, False, False, make_observation(1))
    worker.exchange.act(make_observation(1))
  else:
    worker.exchange.act(make_observation(0))
  worker.end()


_PARTS = gymnasium.spaces.Dict(
  {
    "speed": gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64),
    "gear": gymnasium.spaces.Discrete(3, start=1),
    "lights": gymnasium.spaces.MultiDiscrete([2, 4]),
  }
)


@pytest.mark.parametrize(
  ("space", "observation", "line"),
  [
    (gymnasium.spaces.Discrete(3), 9, "observation 9 is not in"),
    (gymnasium.spaces.MultiDiscrete([2, 4]), [1, 4], r"\[1 4\] is not in"),
    (
      gymnasium.spaces.Box(-128, 127, (2,), np.int8),
      [1, 300],
      "that int8 lacks",
    ),
    (_PARTS, {"speed": [np.nan, 0.0]}, "nan or inf"),
    (_PARTS, {"speed": [1e300, 0.0]}, "at most"),
    (_PARTS, {"gear": 0}, r"\['gear'\] 0 is not in"),
    (_PARTS, {"lights": [2, 0]}, r"\['lights'\] \[2 0\] is not in"),
  ],
)
def test_a_wrong_part_of_an_observation_changes_nothing(
  space, observation, line
):
  exchange = external.Exchange(space, ACTIONS)
  right = space.sample()
  if isinstance(observation, dict):
    observation = right | observation
  exchange.send_action(1)
  with given.one_line(ValueError, match=line):
    exchange.act(observation)
  assert exchange.act(right) == 1
  assert exchange.wait_for_step()[1:] == (0.0, False, False, {})


def test_observations_that_wrappers_have_not_changed_are_rejected():
  space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
  exchange = external.Exchange(space, ACTIONS, bounded=True)
  exchange.send_action(1)
  with pytest.raises(ValueError, match="wrappers"):
    exchange.act([500.0, 0.0])
  assert exchange.act([0.5, 0.0]) == 1


def test_the_workers_end_interrupts_the_loop():
  worker = Worker()
  worker.exchange.act(make_observation(0))
  worker.end()
  with pytest.raises(external.Interrupted):
    worker.exchange.observe(1.0, False, False, make_observation(1))


def test_values_of_the_loop_are_those_of_the_spaces():
  environment, exchange = factory.make_external(given.config_of("Pendulum-v1"))
  taken = []

  def loop():
    taken.append(exchange.act([0.0, 1.0, 0.5]))
    exchange.observe(-1, False, True, np.zeros(3))

  thread = threading.Thread(target=loop, daemon=True)
  thread.start()
  environment.reset()
  step = environment.step(np.array([[0.5]], np.float32))
  thread.join(5)
  assert step.truncated[0] and step.reward[0] == -1.0
  np.testing.assert_allclose(taken[0], [1.0])  # 0.5 of [-1, 1] is 1 of [-2, 2]


_MASKED = given.config_of("CartPole-v1", {"action_mask": True})


def test_a_loop_passes_action_masks():
  worker = Worker(_MASKED)
  act, observe = worker.exchange.act, worker.exchange.observe
  act(make_observation(0), [False, True])
  observe(1.0, False, False, make_observation(1))
  act(make_observation(1), np.array([1, 0]))
  observe(2.0, False, True, make_observation(2), [1, 1])
  act(make_observation(10), [0, 1])
  observe(3.0, True, False, make_observation(11))
  act(make_observation(20), [1, 0])
  worker.end()
  found = [step.observation[0].tolist() for step in worker.steps]
  # Observation 11 has no action, so its mask is of no importance.
  assert [x[4:] for x in found] == [
    *([0, 1], [1, 0], [1, 1], [0, 1], [1, 1], [1, 0])
  ]
  assert [x[0] for x in found] == [0, 1, 2, 10, 11, 20]


@pytest.mark.parametrize(
  ("config", "mask", "words"),
  [
    (_MASKED, None, "act got no action_mask"),
    (_MASKED, [0, 0], "without a legal action"),
    (_MASKED, [1, 1, 1], r"NumPy array of bools \[1, 2\]"),
    (_CARTPOLE, [1, 1], "action_mask, which has no effect"),
  ],
)
def test_a_wrong_mask_is_an_error_of_one_line(config, mask, words):
  worker = Worker(config)
  with pytest.raises(ValueError, match=words) as caught:
    worker.exchange.act(make_observation(0), mask)
  assert "\n" not in str(caught.value)
  worker.end()
