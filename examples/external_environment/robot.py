"""A robot with its own loop, which trains through `slipway.connect`.

    slipway train --config=apex_dqn:cartpole --name=robot \\
      --config.environment.name=robot:Robot \\
      --config.environment.external=True --config.topology.workers=0 \\
      --config.exploration.schedule=linear \\
      --config.limits.environment_steps=3_000 &
    python robot.py runs/robot  # once runs/robot/control.json exists

The robot may be stopped and started again: the run waits for it.
"""

import random
import sys

import gymnasium
import numpy as np


class Robot(gymnasium.Env):
  """Environment that only declares spaces; the run never steps it."""

  observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
  action_space = gymnasium.spaces.Discrete(2)


class Motor:
  """Simulated motor with a position in [-1, 1], which should be close to 0.

  An episode has 30 moves.
  """

  def start(self):
    """Starts an episode at a random position; returns the observation [1]."""
    self._place, self._moves = random.uniform(-1, 1), 0
    return self._look()

  def move(self, right):
    """Moves by 0.1, to the right if `right` is 1 and to the left if it is 0.

    Returns:
      The observation [1], the reward, and whether this was the last move.
    """
    self._place = float(np.clip(self._place + (0.1 if right else -0.1), -1, 1))
    self._moves += 1
    return self._look(), -abs(self._place), self._moves == 30

  def _look(self):
    """Returns the position as an observation, float32 [1]."""
    return np.array([self._place], np.float32)


def main():
  """Collects episodes for a run until it ends; its folder is the argument."""
  import slipway  # here, since the run imports this file for Robot only

  motor = Motor()
  try:
    with slipway.connect(sys.argv[1]) as run:
      while True:
        observation, late = motor.start(), False
        while not late:
          observation, reward, late = motor.move(run.act(observation))
          # terminated is always False; truncated is True after 30 moves.
          run.observe(reward, False, late, observation)
  except slipway.RunEndedError as error:
    print(error)


if __name__ == "__main__":
  main()
