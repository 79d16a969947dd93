"""Greedy: plays greedy episodes, for peers whose libraries evaluate otherwise.

It needs gymnasium and numpy, of any of the peers' versions.
"""
# pyright: reportMissingImports=false

from collections.abc import Callable

import gymnasium
import numpy as np
import progress

# Bound here, since CleanRL's program replaces the class for its scripts.
_Environments = gymnasium.vector.SyncVectorEnv


def play(
  environment: str, act: Callable[[np.ndarray], np.ndarray]
) -> list[float]:
  """Plays 20 episodes at once, and returns their undiscounted returns.

  Args:
    environment: gymnasium id.
    act: function from observations [20, ...] to actions [20, ...].
  """
  environments = _Environments(
    [lambda: gymnasium.make(environment)] * progress.EPISODES
  )
  observations, _ = environments.reset(seed=1_000)
  returns = np.zeros(progress.EPISODES)
  running = np.ones(progress.EPISODES, bool)
  while running.any():
    observations, rewards, terminated, truncated, _ = environments.step(
      act(observations)
    )
    returns += rewards * running
    running &= ~(terminated | truncated)
  environments.close()
  return returns.tolist()
