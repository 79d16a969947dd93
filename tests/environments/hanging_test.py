"""Tests of hanging environments: index, call, and duration in the error."""

import queue
import threading
import time

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import cartpole

from slipway.environments import checked, factory, hanging
from tests.environments import given

_TIMEOUT_S = 0.3


class Hanging(cartpole.CartPoleEnv):
  """Environment whose second of three instances hangs for 1 s in one call."""

  made = 0

  def __init__(self, call):
    super().__init__()
    self._call, self._index, self._calls = call, Hanging.made % 3, 0
    Hanging.made += 1

  def reset(self, **kwargs):
    self._hang("reset")
    return super().reset(**kwargs)

  def step(self, action):
    self._hang("step")
    return super().step(action)

  def _hang(self, call):
    if call != self._call:
      return
    self._calls += 1
    if self._index == 1 and self._calls == (5 if call == "step" else 1):
      time.sleep(1.0)  # here


@pytest.fixture
def errors(monkeypatch):
  """Queue of the errors that threads raise."""
  raised = queue.Queue()
  hook = lambda args: raised.put(args.exc_value)  # noqa: E731
  monkeypatch.setattr(threading, "excepthook", hook)
  gymnasium.register("Hanging-v0", Hanging)
  Hanging.made = 0
  yield raised
  del gymnasium.registry["Hanging-v0"]


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("call", "step"), [("step", 5), ("reset", 0)])
def test_a_call_that_does_not_return(errors, call, step, asynchronous):
  config = given.config_of("Hanging-v0", call=call)
  config.asynchronous = asynchronous
  environment = factory.make(config, 3, seed=1)
  with hanging.detect_hanging(_TIMEOUT_S):
    environment.reset()
    for _ in range(6):
      environment.step(np.zeros(3, np.int32))
  error = errors.get(timeout=5)
  assert isinstance(error, checked.EnvironmentFailedError)
  assert (error.index, error.step) == (1, step)
  assert error.seed is not None
  assert error.line.startswith("environment Hanging-v0 (index 1, seed ")
  assert f"{call}() has not returned for 0." in error.line
  assert "config.environment.step_timeout_s=0.3" in error.line
  assert "time.sleep(1.0)  # here" in error.traceback
  assert error.traceback.count("File ") == 2
  assert errors.empty()


def test_many_steps_that_return(errors):
  environment = factory.make(given.config_of("CartPole-v1"), 2, seed=1)
  # Much longer than a step takes, also on a busy machine.
  with hanging.detect_hanging(1.0):
    environment.reset()
    end_s = time.monotonic() + 1.5
    while time.monotonic() < end_s:
      environment.step(np.zeros(2, np.int32))
  with hanging.detect_hanging(0.0):
    pass
  assert errors.empty()
  names = [thread.name for thread in threading.enumerate()]
  assert names.count("watch of environments") <= 1
