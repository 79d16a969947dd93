"""ExternalEnvironment: a loop of its own steps the environment of a worker."""

import threading

import gymnasium
import ml_collections
import numpy as np
import pytest

from slipway.environments import external, factory

_CARTPOLE = ml_collections.ConfigDict(
  {"name": "CartPole-v1", "kwargs": ml_collections.ConfigDict()}
)


def seen(number):
  """A distinct observation."""
  return np.full(4, number, np.float32)


class Worker:
  """Steps an external environment in a thread, and keeps the steps."""

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
  assert act(seen(0)) == 1
  observe(1.0, False, False, seen(1))
  assert act(seen(1)) == 0
  observe(2.0, False, True, seen(2))
  # The worker's third action was for the step that resets: it is ignored.
  assert act(seen(10)) == 0
  observe(3, np.True_, False, seen(11))
  act(seen(20))
  worker.end()
  numbers = [step.observation[0, 0] for step in worker.steps]
  assert numbers == [0, 1, 2, 10, 11, 20]
  rows = [
    (s.reward[0], s.terminated[0], s.truncated[0], s.first[0])
    for s in worker.steps
  ]
  assert rows == [
    (0.0, False, False, True),
    (1.0, False, False, False),
    (2.0, False, True, False),
    (0.0, False, False, True),
    (3.0, True, False, False),
    (0.0, False, False, True),
  ]


def test_an_observation_is_the_workers_own():
  worker = Worker()
  observation = seen(7)
  worker.exchange.act(observation)
  observation[:] = 0.0
  worker.end()
  assert worker.steps[0].observation[0, 0] == 7.0


WRONG = {
  "act twice": (
    lambda e: e.act(seen(0)) is None or e.act(seen(1)),
    "act was called twice in a row",
  ),
  "observe first": (
    lambda e: e.observe(1.0, False, False, seen(0)),
    "observe was called before act",
  ),
  "shape": (lambda e: e.act(np.zeros(3)), r"of shape \(3,\) and type float64"),
  "type": (
    lambda e: e.act(np.array(list("abcd"))),
    r"shape \(4,\) and type <U1",
  ),
  "not finite": (lambda e: e.act(seen(np.nan)), "not finite"),
  "too large for float32": (
    lambda e: e.act(np.full(4, 1e300)),
    "not finite as float32",
  ),
  "large reward": (
    lambda e: e.act(seen(0)) is None or e.observe(1e300, False, False, seen(1)),
    r"reward is 1e\+300",
  ),
  "huge integer as reward": (
    lambda e: (
      e.act(seen(0)) is None or e.observe(10**400, False, True, seen(1))
    ),
    "reward is 1000",
  ),
  "reward": (
    lambda e: e.act(seen(0)) is None or e.observe(None, False, False, seen(1)),
    "reward is None",
  ),
  "flag": (
    lambda e: e.act(seen(0)) is None or e.observe(1.0, "no", False, seen(1)),
    "terminated is 'no'",
  ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_changes_nothing(case):
  wrong, line = WRONG[case]
  worker = Worker()
  with pytest.raises(ValueError, match=line) as caught:
    wrong(worker.exchange)
  assert "\n" not in str(caught.value)
  if case in ("act twice", "flag") or "reward" in case:
    worker.exchange.observe(1.0, False, False, seen(1))
    worker.exchange.act(seen(1))
  else:
    worker.exchange.act(seen(0))
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
    (_PARTS, {"speed": [np.nan, 0.0]}, "not finite"),
    (_PARTS, {"speed": [1e300, 0.0]}, "not finite as float32"),
    (_PARTS, {"gear": 0}, r"\['gear'\] 0 is not in"),
    (_PARTS, {"lights": [2, 0]}, r"\['lights'\] \[2 0\] is not in"),
  ],
)
def test_a_wrong_part_of_an_observation_changes_nothing(
  space, observation, line
):
  exchange = external.Exchange(space)
  right = space.sample()
  if isinstance(observation, dict):
    observation = right | observation
  exchange.send_action(1)
  with pytest.raises(ValueError, match=line) as caught:
    exchange.act(observation)
  assert "\n" not in str(caught.value)
  assert exchange.act(right) == 1
  assert exchange.wait_for_step()[1:] == (0.0, False, False)


def test_an_end_reaches_the_loop():
  worker = Worker()
  worker.exchange.act(seen(0))
  worker.end()
  with pytest.raises(external.Interrupted):
    worker.exchange.observe(1.0, False, False, seen(1))


def test_values_are_those_of_the_spaces():
  config = ml_collections.ConfigDict(
    {"name": "Pendulum-v1", "kwargs": ml_collections.ConfigDict()}
  )
  environment, exchange = factory.make_external(config)
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
  np.testing.assert_allclose(taken[0], [1.0])  # of -2 to 2
