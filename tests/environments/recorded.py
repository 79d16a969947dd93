"""Recorded episodes for tests."""

import numpy as np

from slipway.environments import factory
from slipway.environments import recorder as recorder_lib
from tests.environments import given


def record(folder, name="CartPole-v1", steps=60, config=None):
  """Records random actions in two environments; returns the spec.

  60 steps of CartPole-v1 give about 100 steps of finished episodes.
  """
  config = config or given.config_of(name)
  environment = factory.make(config, 2, seed=3)
  random = np.random.default_rng(0)
  with recorder_lib.Recorder(folder, "a", config, environment) as recorder:
    step = environment.reset()
    recorder.add(None, step)
    for _ in range(steps):
      actions = environment.sample_actions(step.observation, random)
      step = environment.step(actions)
      recorder.add(actions, step)
  environment.close()
  return environment.spec
