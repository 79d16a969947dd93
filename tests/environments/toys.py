"""Toys: small gymnasium environments that each test one ability of algorithms.

For example `environment.name=tests.environments.toys:Catch-v0`. An algorithm
with the ability learns the environment in seconds; other algorithms never do.
"""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import cartpole

# Actions of `Catch`, which move the paddle by a column or leave it in place.
LEFT, STAY, RIGHT = range(3)


class Catch(gymnasium.Env):
  """A task to catch a falling ball with a paddle, which any algorithm learns.

  Observations are float32 [rows, columns], with ones at ball and paddle. The
  return is 1 if the ball is caught and -1 if not. Osband et al. 2020,
  "Behaviour suite for reinforcement learning", appendix A.
  """

  def __init__(self, rows: int = 10, columns: int = 5):
    """Makes an environment whose episodes have `rows - 1` steps.

    Args:
      rows: height of the board; the paddle is in the last row.
    """
    self.observation_space = spaces.Box(0.0, 1.0, (rows, columns), np.float32)
    self.action_space = spaces.Discrete(3)
    self._rows, self._columns = rows, columns
    # Row and column of the ball, and column of the paddle.
    self._ball, self._paddle = (0, 0), 0

  def reset(self, *, seed=None, options=None):
    """Places the ball randomly in the first row, the paddle in the middle."""
    super().reset(seed=seed)
    self._ball = 0, int(self.np_random.integers(self._columns))
    self._paddle = self._columns // 2
    return self._observe(), {}

  def step(self, action):
    """Moves the ball down by one row, and the paddle left, right or not."""
    moved = self._paddle + int(action) - STAY
    self._paddle = min(max(moved, 0), self._columns - 1)
    row, column = self._ball
    self._ball = row + 1, column
    terminated = row + 1 == self._rows - 1
    result = 1.0 if column == self._paddle else -1.0
    reward = result if terminated else 0.0
    return self._observe(), reward, terminated, False, {}

  def _observe(self) -> np.ndarray:
    """Returns the board, float32 [rows, columns]; ball and paddle are ones."""
    board = np.zeros((self._rows, self._columns), np.float32)
    board[self._ball] = 1.0
    board[-1, self._paddle] = 1.0
    return board


class MemoryChain(gymnasium.Env):
  """A task to repeat, in the last step, a sign that only the first step shows.

  Observations are float32 [3]: the sign, 1 or -1, in the first step and 0
  later; the fraction of the episode that has passed; 1 in the last step and 0
  before. The last action is correct if it is 1 for the sign 1, or 0 for the
  sign -1. The return is 1 for the correct action and -1 for the other. Without
  a memory, the mean return is 0. Osband et al. 2020, "Behaviour suite for
  reinforcement learning", memory length.
  """

  def __init__(self, length: int = 8):
    """Makes an environment whose episodes have `length + 1` steps.

    Args:
      length: number of steps for which an agent has to remember the sign: those
        before the last step.
    """
    self.observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    self.action_space = spaces.Discrete(2)
    self._length = length
    self._steps = 0  # steps of the episode so far
    self._correct_action = 0  # of the last step: 1 for the sign 1, 0 for -1

  def reset(self, *, seed=None, options=None):
    """Chooses a random sign; returns the only observation with the sign."""
    super().reset(seed=seed)
    self._steps, self._correct_action = 0, int(self.np_random.integers(2))
    return self._observe(), {}

  def step(self, action):
    """Ends the episode after the last step, whose action decides the reward."""
    terminated = self._steps == self._length
    self._steps += 1
    result = 1.0 if int(action) == self._correct_action else -1.0
    reward = result if terminated else 0.0
    return self._observe(), reward, terminated, False, {}

  def _observe(self) -> np.ndarray:
    """Returns sign or 0, fraction of the episode, and 1 in the last step."""
    sign = 2.0 * self._correct_action - 1.0
    shown_sign = sign if self._steps == 0 else 0.0
    fraction = min(self._steps / self._length, 1.0)
    is_last = self._steps == self._length
    return np.array([shown_sign, fraction, is_last], np.float32)


class CartPoleWithoutVelocities(cartpole.CartPoleEnv):
  """CartPole-v1 without velocities in observations: tests for a memory.

  Observations are float32 [2]: the cart's position and the pole's angle. Only
  their changes from step to step show the velocities. Wierstra et al. 2007,
  "Solving deep memory POMDPs with recurrent policy gradients", pole balancing.
  """

  def __init__(self):
    super().__init__()
    full_space = self.observation_space
    # [::2] selects position and angle, without their velocities.
    self.observation_space = spaces.Box(
      full_space.low[::2], full_space.high[::2]
    )

  def reset(self, *, seed=None, options=None):
    """Starts an episode near balance, like CartPole-v1."""
    observation, info = super().reset(seed=seed, options=options)
    return observation[::2], info

  def step(self, action):
    """Pushes the cart to the left (0) or right (1), like CartPole-v1."""
    observation, *others = super().step(action)
    return observation[::2], *others


class CombinationLock(gymnasium.Env):
  """A chain with one reward at its end: favours prioritized and n-step replay.

  In each of N states, the correct action advances to the next state and costs
  0.02. The other action returns to the first state, or has no effect if the
  lock is `forgiving`. The correct action is 0 in states 0, 2, 4 ..., and 1 in
  the others. Observations are one-hot, float32 [N]. After the last state, the
  reward is 1, and the episode terminates; after 4 N steps it is truncated.
  Random actions rarely reach the end, except that of a forgiving lock. The last
  step's `info["is_success"]` is whether the end was reached.

  The chain is that of Schaul et al. 2016, "Prioritized experience replay",
  section 3.1. The cost is that of "deep sea" in Osband et al. 2020, "Behaviour
  suite for reinforcement learning"; it discourages agents that have not found
  the end.
  """

  # Negative reward of each correct action.
  COST = 0.02

  def __init__(self, states: int = 12, forgiving: bool = False):
    """Makes a chain.

    Args:
      states: N, the number of states.
      forgiving: whether a wrong action leaves the state as it is; otherwise it
        returns to the first state.
    """
    self.observation_space = spaces.Box(0.0, 1.0, (states,), np.float32)
    self.action_space = spaces.Discrete(2)
    self._states, self._forgiving = states, forgiving
    self._state, self._steps = 0, 0

  def reset(self, *, seed=None, options=None):
    """Starts an episode in the first state."""
    super().reset(seed=seed)
    self._state, self._steps = 0, 0
    return self._observe(), {}

  def step(self, action):
    """Advances to the next state if the action is correct."""
    correct = int(action) == self._state % 2
    if correct:
      self._state += 1
    elif not self._forgiving:
      self._state = 0
    self._steps += 1
    terminated = self._state == self._states
    truncated = not terminated and self._steps == 4 * self._states
    # Each advance has a cost, so that agents that never see the end learn to
    # avoid advancing.
    reward = float(terminated) - self.COST * correct
    info = {"is_success": terminated} if terminated or truncated else {}
    return self._observe(), reward, terminated, truncated, info

  def _observe(self) -> np.ndarray:
    """Returns the state as one-hot vector, float32 [N]."""
    state = np.zeros(self._states, np.float32)
    state[min(self._state, self._states - 1)] = 1.0
    return state


class NoisyReward(gymnasium.Env):
  """A one-step task with random rewards: tests which statistic is learned.

  Action 0 gives -1 or 3 with equal probability; action 1 always gives 0.5. So
  action 0 has the higher mean, 1, although its reward is lower in half of the
  steps. Observations are always 1, float32 [1].
  """

  # The two equally probable rewards of each action.
  REWARDS = ((-1.0, 3.0), (0.5, 0.5))

  def __init__(self):
    self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    self.action_space = spaces.Discrete(2)

  def reset(self, *, seed=None, options=None):
    """Returns the constant observation 1, and an empty info."""
    super().reset(seed=seed)
    return np.ones(1, np.float32), {}

  def step(self, action):
    """Gives the reward of the action, and terminates the episode."""
    reward = self.REWARDS[int(action)][int(self.np_random.integers(2))]
    return np.ones(1, np.float32), reward, True, False, {}


class Scales(gymnasium.Env):
  """A one-step task that requires the normalization of observations.

  Observations are float32 [2], sampled uniformly: the first number is in
  [-1e-3, 1e-3], the second in [-1e3, 1e3]. Action 1 is correct if the first
  number is positive, and action 0 if not. The reward is 1 for the correct
  action, and -1 for the other. The second number is noise.
  """

  # The largest absolute values of an observation's two numbers.
  SCALES = np.array([1e-3, 1e3])

  def __init__(self):
    high = self.SCALES.astype(np.float32)
    self.observation_space = spaces.Box(-high, high)
    self.action_space = spaces.Discrete(2)
    self._observation = np.zeros(2, np.float32)

  def reset(self, *, seed=None, options=None):
    """Samples the two numbers of the observation."""
    super().reset(seed=seed)
    numbers = self.SCALES * self.np_random.uniform(-1.0, 1.0, 2)
    self._observation = numbers.astype(np.float32)
    return self._observation, {}

  def step(self, action):
    """Gives the reward of the action, and terminates the episode."""
    correct = int(action) == int(self._observation[0] > 0)
    return self._observation, 1.0 if correct else -1.0, True, False, {}


class Pointing(gymnasium.Env):
  """A task to point at a dot in an image, with a continuous action.

  Observations are float32 [S, S], with a one at the dot, whose row and column
  are random in each step. The reward is minus the distance between the action
  and the dot's column, where columns are numbers from -1 to 1. So the return is
  0 at best, and -5.6 (with S = 10) for the best action that does not depend on
  the image.
  """

  # Number of steps per episode.
  STEPS = 10

  def __init__(self, size: int = 10):
    self.observation_space = spaces.Box(0.0, 1.0, (size, size), np.float32)
    self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    self._size, self._steps = size, 0
    self._dot = 0, 0  # row and column

  def reset(self, *, seed=None, options=None):
    """Places the first dot."""
    super().reset(seed=seed)
    self._steps = 0
    return self._place_dot(), {}

  def step(self, action):
    """Gives the reward for the last dot, and places the next one."""
    column = 2.0 * self._dot[1] / (self._size - 1) - 1.0
    reward = -abs(float(action[0]) - column)
    self._steps += 1
    return self._place_dot(), reward, self._steps == self.STEPS, False, {}

  def _place_dot(self) -> np.ndarray:
    """Places the dot at random; returns the image, float32 [S, S]."""
    row, column = self.np_random.integers(self._size, size=2)
    self._dot = int(row), int(column)
    image = np.zeros((self._size, self._size), np.float32)
    image[self._dot] = 1.0
    return image


class BitFlipping(gymnasium.Env):
  """A task to reach a goal of N bits, by flipping one bit in each step.

  Observations are a Dict with `observation` and `achieved_goal`, both the bits,
  and `desired_goal`, float32 [N] each. State and goal are random. The reward is
  -1 in each step before the goal is reached, and 0 in that step, which ends the
  episode; after N steps it is truncated. With many bits, random actions never
  reach the goal. The last step's `info["is_success"]` is whether it was
  reached. Andrychowicz et al. 2017, "Hindsight experience replay", section 3.1.
  """

  def __init__(self, bits: int = 10):
    """Makes an environment with `bits` actions."""
    box = spaces.Box(0.0, 1.0, (bits,), np.float32)
    self.observation_space = spaces.Dict(
      {"observation": box, "achieved_goal": box, "desired_goal": box}
    )
    self.action_space = spaces.Discrete(bits)
    self._bits, self._steps = np.zeros((2, bits), np.float32), 0

  def reset(self, *, seed=None, options=None):
    """Samples the bits and those of the goal, which differ."""
    super().reset(seed=seed)
    self._steps, shape = 0, self._bits.shape
    self._bits[:] = 0.0
    while (self._bits[0] == self._bits[1]).all():
      self._bits = self.np_random.integers(2, size=shape).astype(np.float32)
    return self._observe(), {}

  def step(self, action):
    """Flips the bit that the action names."""
    self._bits[0, action] = 1.0 - self._bits[0, action]
    self._steps += 1
    bits, goal = self._bits
    reward = self.compute_reward(bits, goal, {})
    terminated = self.compute_terminated(bits, goal, {})
    truncated = not terminated and self._steps == self._bits.shape[1]
    info = {"is_success": terminated} if terminated or truncated else {}
    return self._observe(), reward, terminated, truncated, info

  def compute_reward(self, achieved_goal, desired_goal, info) -> float:
    """Returns 0 if the goal is achieved, else -1."""
    achieved = self.compute_terminated(achieved_goal, desired_goal, info)
    return float(achieved) - 1.0

  def compute_terminated(self, achieved_goal, desired_goal, info) -> bool:
    """Returns whether the goal is achieved."""
    del info
    return bool((achieved_goal == desired_goal).all())

  def _observe(self) -> dict[str, np.ndarray]:
    """Returns the bits, twice, and the goal's."""
    bits, goal = self._bits.copy()
    return {"observation": bits, "achieved_goal": bits, "desired_goal": goal}


class Reaching(gymnasium.Env):
  """A task to move a point to a goal in a square, with a sparse reward.

  Observations are a Dict with `observation` and `achieved_goal`, both the
  position, and `desired_goal`, float32 [2] each, in [-1, 1]. Actions, float32
  [2], are moves of at most 0.1 per axis. The reward is 0 within 0.05 of the
  goal, and -1 elsewhere. Episodes are truncated after 50 steps; the return of
  the best policy is about -6, that of a still point about -50.
  """

  # Distance below which the goal is achieved, largest move, and steps.
  RADIUS, MOVE, STEPS = 0.05, 0.1, 50

  def __init__(self):
    box = spaces.Box(-1.0, 1.0, (2,), np.float32)
    self.observation_space = spaces.Dict(
      {"observation": box, "achieved_goal": box, "desired_goal": box}
    )
    self.action_space = box
    self._position, self._goal = np.zeros((2, 2), np.float32)
    self._steps = 0

  def reset(self, *, seed=None, options=None):
    """Places the point in the middle, and the goal at random."""
    super().reset(seed=seed)
    self._position, self._steps = np.zeros(2, np.float32), 0
    self._goal = self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32)
    return self._observe(), {}

  def step(self, action):
    """Moves the point, but not out of the square."""
    moved = self._position + self.MOVE * np.clip(action, -1.0, 1.0)
    self._position = np.clip(moved, -1.0, 1.0).astype(np.float32)
    self._steps += 1
    reward = self.compute_reward(self._position, self._goal, {})
    truncated = self._steps == self.STEPS
    info = {"is_success": reward == 0.0} if truncated else {}
    return self._observe(), reward, False, truncated, info

  def compute_reward(self, achieved_goal, desired_goal, info) -> float:
    """Returns 0 if the goal is achieved, else -1."""
    del info
    distance = np.linalg.norm(achieved_goal - desired_goal)
    return float(distance < self.RADIUS) - 1.0

  def _observe(self) -> dict[str, np.ndarray]:
    """Returns the position, twice, and the goal's."""
    return {
      "observation": self._position,
      "achieved_goal": self._position,
      "desired_goal": self._goal,
    }


gymnasium.register(
  "CartPoleWithoutVelocities-v0",
  f"{__name__}:CartPoleWithoutVelocities",
  max_episode_steps=500,  # as CartPole-v1
)
for _class in (
  Catch,
  MemoryChain,
  CombinationLock,
  NoisyReward,
  Scales,
  Pointing,
  BitFlipping,
  Reaching,
):
  gymnasium.register(f"{_class.__name__}-v0", f"{__name__}:{_class.__name__}")
