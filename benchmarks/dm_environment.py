"""A gymnasium environment as a dm_env, for the comparison with Acme."""

import dm_env
import gymnasium
import numpy as np
from acme import specs


class GymnasiumEnvironment(dm_env.Environment):
  """One environment with float observations as a dm_env.

  Its actions are discrete, or continuous within bounds.

  Acme's own GymWrapper requires environments of the older package `gym`.
  """

  def __init__(self, name: str):
    """Makes the environment.

    Args:
      name: gymnasium id of the environment.
    """
    self._environment = gymnasium.make(name)
    self._ended = True

  def reset(self) -> dm_env.TimeStep:
    """Starts an episode."""
    self._ended = False
    return dm_env.restart(self._environment.reset()[0])

  def step(self, action) -> dm_env.TimeStep:
    """Takes a step, or resets the environment if the episode has ended."""
    if self._ended:
      return self.reset()
    observation, reward, terminated, truncated, _ = self._environment.step(
      action if np.shape(action) else int(action)
    )
    # Of the specs' types: the adder's table checks them.
    reward = np.float32(reward)
    self._ended = terminated or truncated
    if terminated:
      return dm_env.TimeStep(
        dm_env.StepType.LAST, reward, np.float32(0.0), observation
      )
    kind = dm_env.StepType.LAST if truncated else dm_env.StepType.MID
    return dm_env.TimeStep(kind, reward, np.float32(1.0), observation)

  def observation_spec(self) -> specs.Array:
    """Returns the spec of observations; without bounds, which are unused."""
    space = self._environment.observation_space
    return specs.Array(space.shape, space.dtype, "observation")

  def action_spec(self) -> specs.DiscreteArray | specs.BoundedArray:
    """Returns the spec of actions; discrete ones are counted from 0."""
    space = self._environment.action_space
    if isinstance(space, gymnasium.spaces.Box):
      return specs.BoundedArray(space.shape, space.dtype, space.low, space.high)
    return specs.DiscreteArray(int(space.n))

  def reward_spec(self) -> specs.Array:
    """Returns the spec of rewards, float32."""
    return specs.Array((), np.float32, "reward")

  def discount_spec(self) -> specs.BoundedArray:
    """Returns the spec of discounts, float32 in [0, 1]."""
    return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")
