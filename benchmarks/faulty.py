"""Faulty: environments and wrappers with the mistakes that users make.

The benchmark of `slipway doctor` trains in them; see `benchmarks/doctor.py`.
"""

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import acrobot, cartpole


class NegatedRewards(gymnasium.RewardWrapper):
  """Rewards costs, and charges for rewards."""

  def reward(self, reward):
    return -float(reward)


class LargeRewards(gymnasium.RewardWrapper):
  """Has rewards in another unit, 1,000 times as large."""

  def reward(self, reward):
    return 1e3 * float(reward)


class TinyRewards(gymnasium.RewardWrapper):
  """Has rewards in another unit, a thousandth as large."""

  def reward(self, reward):
    return 1e-3 * float(reward)


class NoRewards(gymnasium.RewardWrapper):
  """Has lost its rewards."""

  def reward(self, reward):
    del reward
    return 0.0


class LargeObservations(gymnasium.ObservationWrapper):
  """Observes in another unit, such as millimetres."""

  def __init__(self, env):
    super().__init__(env)
    space = env.observation_space
    self.observation_space = gymnasium.spaces.Box(
      -np.inf, np.inf, space.shape, np.float32
    )

  def observation(self, observation):
    return (1e3 * observation).astype(np.float32)


class HiddenVelocities(gymnasium.ObservationWrapper):
  """Observes CartPole's or Pendulum's positions, but no velocities."""

  def __init__(self, env):
    super().__init__(env)
    space = env.observation_space
    self._kept = [0, 2] if space.shape == (4,) else [0, 1]
    self.observation_space = gymnasium.spaces.Box(
      space.low[self._kept], space.high[self._kept], dtype=np.float32
    )

  def observation(self, observation):
    return observation[self._kept]


class _ScaledActions(gymnasium.ActionWrapper):
  """Passes actions on in another unit."""

  factor = 1.0

  def action(self, action):
    space = self.action_space
    scaled = np.asarray(self.factor * action, np.float32)
    return np.clip(scaled, space.low, space.high)


class WeakActions(_ScaledActions):
  """Uses a hundredth of the range of its actions."""

  factor = 1e-2


class StrongActions(_ScaledActions):
  """Nearly any action is the strongest one."""

  factor = 100.0


class IgnoredActions(gymnasium.ActionWrapper):
  """Does the same whatever the action is."""

  def action(self, action):
    return 0 * action


class TerminatedByLimit(gymnasium.Wrapper):
  """Calls the end at a time limit a terminal state."""

  def step(self, action):
    observation, reward, terminated, truncated, info = self.env.step(action)
    return observation, reward, terminated or truncated, False, info


class IgnoredSeed(gymnasium.Wrapper):
  """Does not pass the seed on."""

  def reset(self, *, seed=None, options=None):
    del seed
    return self.env.reset(options=options)


class FixedSeed(gymnasium.Wrapper):
  """Begins each episode in the same way, whatever the seed is."""

  def reset(self, *, seed=None, options=None):
    del seed
    return self.env.reset(seed=0, options=options)


class UnseededCartPole(cartpole.CartPoleEnv):
  """Samples its first states by a generator of its own."""

  def reset(self, *, seed=None, options=None):
    del seed, options
    self.state = np.random.default_rng().uniform(-0.05, 0.05, size=(4,))
    self.steps_beyond_terminated = None
    return np.array(self.state, dtype=np.float32), {}


class LimitedAcrobot(acrobot.AcrobotEnv):
  """Has a time limit of its own, at which it terminates."""

  def reset(self, *, seed=None, options=None):
    self._steps = 0
    return super().reset(seed=seed, options=options)

  def step(self, action):
    self._steps += 1
    observation, reward, terminated, _, info = super().step(action)
    return observation, reward, terminated or self._steps >= 200, False, info
