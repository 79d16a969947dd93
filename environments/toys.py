"""Toys: small gymnasium environments that each test one ability of algorithms.

For example `environment.name=slipway.environments.toys:Catch-v0`. An algorithm
with the ability learns the toy in seconds; one without it never does.
"""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import cartpole

LEFT, STAY, RIGHT = range(3)


class Catch(gymnasium.Env):
  """A task to catch a falling ball with a paddle, which any algorithm learns.

  Observations are float32 [rows, columns], with ones at ball and paddle. The
  return is 1 if the ball is caught and -1 if not. Osband et al. 2020,
  "Behaviour suite for reinforcement learning", appendix A.
  """

  def __init__(self, rows: int = 10, columns: int = 5):
    """Makes a board of `rows` by `columns`."""
    self.observation_space = spaces.Box(0.0, 1.0, (rows, columns), np.float32)
    self.action_space = spaces.Discrete(3)
    self._rows, self._columns = rows, columns
    self._ball, self._paddle = (0, 0), 0

  def reset(self, *, seed=None, options=None):
    """Puts the ball anywhere in the first row, and the paddle in the middle."""
    super().reset(seed=seed)
    self._ball = 0, int(self.np_random.integers(self._columns))
    self._paddle = self._columns // 2
    return self._observe(), {}

  def step(self, action):
    """Moves the paddle by `action`, and the ball by a row."""
    moved = self._paddle + int(action) - STAY
    self._paddle = min(max(moved, 0), self._columns - 1)
    row, column = self._ball
    self._ball = row + 1, column
    terminated = row + 1 == self._rows - 1
    result = 1.0 if column == self._paddle else -1.0
    reward = result if terminated else 0.0
    return self._observe(), reward, terminated, False, {}

  def _observe(self) -> np.ndarray:
    board = np.zeros((self._rows, self._columns), np.float32)
    board[self._ball] = 1.0
    board[-1, self._paddle] = 1.0
    return board


class MemoryChain(gymnasium.Env):
  """A task to repeat, in the last step, a sign that only the first step shows.

  Observations are float32 [3]: the sign, 1 or -1, in the first step and 0
  later; the fraction of the episode that has passed; 1 in the last step and 0
  before. The last action is correct if it is 1 for the sign 1, or 0 for -1. The
  return is 1 for a correct action and -1 for the other, so it is 0 on
  average without a memory, which the task requires. Osband et al. 2020,
  "Behaviour suite", memory length.
  """

  def __init__(self, length: int = 8):
    """Makes episodes that end `length` steps after the sign is shown."""
    self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    self.action_space = spaces.Discrete(2)
    self._length, self._passed, self._sign = length, 0, 0

  def reset(self, *, seed=None, options=None):
    """Shows a sign."""
    super().reset(seed=seed)
    self._passed, self._sign = 0, int(self.np_random.integers(2))
    return self._observe(), {}

  def step(self, action):
    """Ignores the action, except in the last step, whose reward it decides."""
    terminated = self._passed == self._length
    self._passed += 1
    result = 1.0 if int(action) == self._sign else -1.0
    reward = result if terminated else 0.0
    return self._observe(), reward, terminated, False, {}

  def _observe(self) -> np.ndarray:
    shown = 2.0 * self._sign - 1.0 if self._passed == 0 else 0.0
    passed = min(self._passed / self._length, 1.0)
    return np.array([shown, passed, self._passed == self._length], np.float32)


class CartPoleWithoutVelocities(cartpole.CartPoleEnv):
  """CartPole-v1 whose observations lack velocities: requires a memory.

  Observations are float32 [2]: the cart's position and the pole's angle. Their
  changes from step to step show the velocities. Wierstra et al. 2007, "Solving
  deep memory POMDPs with recurrent policy gradients", pole balancing.
  """

  def __init__(self):
    """Defines the spaces."""
    super().__init__()
    whole = self.observation_space
    self.observation_space = spaces.Box(whole.low[::2], whole.high[::2])

  def reset(self, *, seed=None, options=None):
    """Starts near the balance, as CartPole-v1 does."""
    observation, info = super().reset(seed=seed, options=options)
    return observation[::2], info

  def step(self, action):
    """Pushes the cart; see CartPole-v1."""
    observation, *others = super().step(action)
    return observation[::2], *others


class CombinationLock(gymnasium.Env):
  """A chain with one reward at its end: favours prioritized and n-step replay.

  In each of N states, one action advances to the next state and costs 0.02. The
  other one returns to the first state, or does nothing if the lock is
  `forgiving`. Which action advances alternates. Observations are one-hot,
  float32 [N]. The end gives a reward of 1 if it is reached within 4 N steps.
  Random actions rarely reach the end, but often that of a forgiving lock. The
  chain is that of Schaul et al. 2016, "Prioritized experience replay", section
  3.1, with the cost of "deep sea" in Osband et al. 2020, "Behaviour suite",
  which discourages agents that have not found the end.
  """

  COST = 0.02

  def __init__(self, states: int = 12, forgiving: bool = False):
    """Makes a chain of `states` states.

    Args:
      states: N.
      forgiving: whether a wrong action leaves the state as it is.
    """
    self.observation_space = spaces.Box(0.0, 1.0, (states,), np.float32)
    self.action_space = spaces.Discrete(2)
    self._states, self._forgiving = states, forgiving
    self._state, self._steps = 0, 0

  def reset(self, *, seed=None, options=None):
    """Starts in the first state."""
    super().reset(seed=seed)
    self._state, self._steps = 0, 0
    return self._observe(), {}

  def step(self, action):
    """Advances if `action` is the one that this state requires.

    Otherwise returns to the start, unless the lock is forgiving.
    """
    correct = int(action) == self._state % 2
    if correct:
      self._state += 1
    elif not self._forgiving:
      self._state = 0
    self._steps += 1
    terminated = self._state == self._states
    truncated = not terminated and self._steps == 4 * self._states
    # To advance costs, so that those who never see the end learn to avoid it.
    reward = float(terminated) - self.COST * correct
    return self._observe(), reward, terminated, truncated, {}

  def _observe(self) -> np.ndarray:
    state = np.zeros(self._states, np.float32)
    state[min(self._state, self._states - 1)] = 1.0
    return state


class NoisyReward(gymnasium.Env):
  """A one-step task with random rewards: tests the statistic learned of them.

  Action 0 gives -1 or 3 with equal probability; action 1 always gives 0.5. So
  action 0 has the better mean, 1, and a chance of one half to be worse.
  Observations are always 1, float32 [1].
  """

  REWARDS = ((-1.0, 3.0), (0.5, 0.5))  # by action, with equal probability

  def __init__(self):
    """Defines the spaces."""
    self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    self.action_space = spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    """Returns the only observation."""
    super().reset(seed=seed)
    return np.ones(1, np.float32), {}

  def step(self, action):
    """Returns the action's reward, and ends the episode."""
    reward = self.REWARDS[int(action)][int(self.np_random.integers(2))]
    return np.ones(1, np.float32), reward, True, False, {}


class Scales(gymnasium.Env):
  """A one-step task whose reward depends on a tiny number: tests normalization.

  Observations are uniform float32 [2]: the first number is in [-1e-3, 1e-3],
  the second in [-1e3, 1e3]. The reward is 1 for action 1 if the first number is
  positive, and for action 0 if not, and -1 for the other action. The second
  number has no meaning.
  """

  SCALES = np.array([1e-3, 1e3])

  def __init__(self):
    """Defines the spaces."""
    high = self.SCALES.astype(np.float32)
    self.observation_space = spaces.Box(-high, high)
    self.action_space = spaces.Discrete(2)
    self._observation = np.zeros(2, np.float32)

  def reset(self, *, seed=None, options=None):
    """Samples the two numbers."""
    super().reset(seed=seed)
    numbers = self.SCALES * self.np_random.uniform(-1.0, 1.0, 2)
    self._observation = numbers.astype(np.float32)
    return self._observation, {}

  def step(self, action):
    """Returns the action's reward, and ends the episode."""
    correct = int(action) == int(self._observation[0] > 0)
    return self._observation, 1.0 if correct else -1.0, True, False, {}


gymnasium.register(
  "CartPoleWithoutVelocities-v0",
  f"{__name__}:CartPoleWithoutVelocities",
  max_episode_steps=500,  # as CartPole-v1
)
for _class in (Catch, MemoryChain, CombinationLock, NoisyReward, Scales):
  gymnasium.register(f"{_class.__name__}-v0", f"{__name__}:{_class.__name__}")
