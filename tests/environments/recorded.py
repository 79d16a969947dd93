"""Recorded episodes, for tests that need some."""

import numpy as np

from slipway.environments import factory, recordings, specs
from tests.environments import given


def record(folder, name="CartPole-v1", steps=60):
  """Records two environments' random actions; returns the environment's spec.

  60 steps of CartPole-v1 are some 100 steps of finished episodes.
  """
  config = given.config_of(name)
  environment = factory.make(config, 2, seed=3)
  random, everyone = np.random.default_rng(0), np.ones(2, bool)
  with recordings.Recorder(folder, config, environment) as recorder:
    recorder.add(None, environment.reset(), everyone)
    for _ in range(steps):
      spec = environment.spec.actions
      if isinstance(spec, specs.DiscreteArray):
        actions = random.integers(spec.num_values, size=2, dtype=np.int32)
      else:
        actions = random.uniform(-1, 1, (2, *spec.shape)).astype(np.float32)
      recorder.add(actions, environment.step(actions), everyone)
  environment.close()
  return environment.spec
