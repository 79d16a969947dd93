"""Goals: rewards of other goals than an episode's own, by its environment.

Environments with goals have observations that are a Dict with `achieved_goal`
and `desired_goal`, and `compute_reward`, as gymnasium-robotics defines them.
https://robotics.farama.org/content/multi-goal_api/
"""

from collections.abc import Callable
from typing import Any

import ml_collections
import numpy as np
from gymnasium import spaces

from slipway.environments import checked, factory, specs
from slipway.environments import spaces as spaces_lib

# Steps of `Goals.check`, at most.
_CHECKED_STEPS = 20


class Goals:
  """Where the goals are in flat observations, and the rewards of goals.

  It has an environment of its own, whose functions must not depend on its
  state.

  Attributes:
    achieved: columns of the achieved goal in a flat observation.
    desired: columns of the desired goal.
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Makes the environment.

    Args:
      config: the `environment` section of a config.

    Raises:
      ValueError: it has no goals; or as `factory.make`.
    """
    self._environment = environment = factory.make(config, num_envs=1, seed=0)
    found = {
      leaf.path: (leaf.space, columns)
      for leaf, columns in spaces_lib.leaf_slices(environment.observation_space)
    }
    achieved, desired = (
      found.get((key,), (None, slice(0)))
      for key in ("achieved_goal", "desired_goal")
    )
    self._space, self.achieved = achieved
    self.desired = desired[1]
    compute_reward = self._find("compute_reward")
    self._compute_terminated = self._find("compute_terminated")
    if (
      compute_reward is None
      or not isinstance(self._space, spaces.Box)
      or self._space.shape != getattr(desired[0], "shape", None)
    ):
      space = spaces_lib.one_line(environment.observation_space)
      raise ValueError(
        f"config.environment.name is {environment.name!r}, which lacks goals "
        f"for config.replay.hindsight, since its observations are {space}: it "
        "needs a Dict with two Boxes of one shape, achieved_goal and "
        "desired_goal, and a method compute_reward(achieved_goal, "
        "desired_goal, info); or use 'none'"
      )
    self._compute_reward = compute_reward

  def compute(
    self, achieved: np.ndarray, desired: np.ndarray, terminated: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Computes the rewards of M steps, and whether they end their episodes.

    Args:
      achieved: goals that the steps achieved, in flat form [M, G].
      desired: goals that they should have achieved, [M, G].
      terminated: bool [M], the result for environments that have no
        `compute_terminated`.

    Returns:
      Rewards float32 [M], scaled and clipped as the config defines, and flags
      bool [M].

    Raises:
      checked.EnvironmentFailedError: the environment's functions failed.
    """
    rewards = np.empty(len(achieved), np.float32)
    terminated = terminated.copy()
    goals = zip(self._restore(achieved), self._restore(desired), strict=True)
    try:
      for i, pair in enumerate(goals):
        rewards[i] = self._compute_reward(*pair, {})
        if self._compute_terminated is not None:
          terminated[i] = self._compute_terminated(*pair, {})
      if not (np.abs(rewards) <= specs.LARGEST).all():
        raise ValueError("a reward from which nothing can be learned")
    except Exception as error:
      fault = checked.EnvironmentFault.from_error(
        None, "compute_reward()", error
      )
      name = self._environment.name
      raise checked.EnvironmentFailedError(name, fault) from error
    return self._environment.convert_rewards_to_spec(rewards), terminated

  def check(self) -> None:
    """Checks random steps' rewards against those of `compute`.

    Raises:
      ValueError: they differ, so the relabelled rewards would be wrong.
      checked.EnvironmentFailedError: the environment failed.
    """
    environment, random = self._environment, np.random.default_rng(0)
    step = environment.reset()
    for _ in range(_CHECKED_STEPS):
      step = environment.step(
        environment.sample_actions(step.observation, random)
      )
      achieved, desired = (
        step.observation[:, columns]
        for columns in (self.achieved, self.desired)
      )
      reward, terminated = self.compute(achieved, desired, step.terminated)
      for name, own, given in (
        ("compute_reward", reward, step.reward),
        ("compute_terminated", terminated, step.terminated),
      ):
        if not np.allclose(own, given, 1e-4, 1e-4):
          raise ValueError(
            f"config.environment.name is {environment.name!r}, whose {name}("
            f"achieved_goal, desired_goal, {{}}) is {own[0]}, where step() "
            f"returned {given[0]}, so config.replay.hindsight would learn what "
            "is not true: correct one of them, or use 'none'"
          )
      if step.terminated[0] or step.truncated[0]:
        break

  def close(self) -> None:
    """Closes the environment."""
    self._environment.close()

  def _find(self, name: str) -> Callable[..., Any] | None:
    """Returns a method of the environment or a wrapper, or None."""
    for env in self._environment.environments:
      if env.has_wrapper_attr(name):
        return env.get_wrapper_attr(name)
    return None

  def _restore(self, goals: np.ndarray) -> np.ndarray:
    """Returns flat goals [M, G] as values of their space."""
    space: Any = self._space
    return goals.reshape(len(goals), *space.shape).astype(space.dtype)
