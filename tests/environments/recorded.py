"""Recorded episodes for tests."""

import numpy as np

from slipway.environments import factory, recordings
from tests.environments import given


def record(folder, name="CartPole-v1", steps=60, config=None):
  """Records random actions in two environments; returns the spec.

  60 steps of CartPole-v1 give about 100 steps of finished episodes.
  """
  config = config or given.config_of(name)
  environment = factory.make(config, 2, seed=3)
  random, everyone = np.random.default_rng(0), np.ones(2, bool)
  with recordings.Recorder(folder, config, environment) as recorder:
    step = environment.reset()
    recorder.add(None, step, everyone)
    for _ in range(steps):
      actions = environment.sample_actions(step.observation, random)
      step = environment.step(actions)
      recorder.add(actions, step, everyone)
  environment.close()
  return environment.spec
