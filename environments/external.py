"""ExternalEnvironment: an environment that another loop steps.

A worker calls `reset` and `step` of an environment. A game, a robot or a
service has a loop of its own, which asks for an action and reports what
followed. An `Exchange` connects the two: the worker runs in a thread, and its
calls return when the loop has made the corresponding ones.

| the loop calls | the worker's thread |
|---|---|
| `act(o_0)` | `reset()` returns o_0; it chooses a_0 and calls `step(a_0)` |
| `act` returns a_0 | waits in `step(a_0)` |
| `observe(r_1, False, False, o_1)` | |
| `act(o_1)` | `step(a_0)` returns o_1, r_1; it calls `step(a_1)` |
| `act` returns a_1 | waits in `step(a_1)` |
| `observe(r_2, True, False, o_2)` | `step(a_1)` returns o_2, r_2; `reset()` |
| `act(o_0)` of the next episode | `reset()` returns o_0 |
"""

import copy
import enum
import math
import threading
import typing
from collections.abc import Callable

import gymnasium
import numpy as np

from slipway.environments import spaces

_LOOK_S = 0.1  # seconds between two looks whether the worker should stop


class Interrupted(KeyboardInterrupt):
  """The worker stops, so that nothing waits for the loop any longer.

  A KeyboardInterrupt is the one error that is not taken for the environment's.
  """


class _Turn(enum.Enum):
  """What the loop should call next."""

  ACT = "act"
  OBSERVE = "observe"


class Exchange:
  """Passes observations to a worker's thread, and actions back.

  One thread calls `act` and `observe`, another one the other methods.
  """

  def __init__(self, observation_space: gymnasium.Space):
    """Waits for the first `act`.

    Args:
      observation_space: of the observations.
    """
    self._space = observation_space
    self._changed = threading.Condition()
    self._next = _Turn.ACT
    self._begins = True  # the next `act` has the first observation
    # What waits to be taken: by the worker, and by the loop.
    self._observed: tuple[typing.Any, float, bool, bool] | None = None
    self._action: typing.Any = None
    self._has_action = self._is_closed = False
    self._reward = 0.0  # of the step that `observe` reported last
    self._check: Callable[[], bool] = lambda: False

  def set_check(self, check: Callable[[], bool]) -> None:
    """Sets what the worker's thread calls a few times a second while it waits.

    Args:
      check: returns whether the worker should stop.
    """
    self._check = check

  def act(self, observation: typing.Any) -> typing.Any:
    """Returns the action for an observation; waits for the worker.

    Raises:
      ValueError: one line: the call or the observation is wrong, and had no
        effect.
      Interrupted: the worker has ended.
    """
    with self._changed:
      if self._is_closed:
        raise Interrupted
      self._check_turn(_Turn.ACT)
      observation = self._read(observation)
      reward = 0.0 if self._begins else self._reward
      self._begins = False
      self._next = _Turn.OBSERVE
      self._give((observation, reward, False, False))
      while not self._has_action:
        if self._is_closed:
          raise Interrupted
        self._changed.wait()
      self._has_action = False
      return self._action

  def observe(
    self,
    reward: float,
    terminated: bool,
    truncated: bool,
    observation: typing.Any,
  ) -> None:
    """Reports the step that followed the last action; does not wait.

    Raises:
      ValueError: one line: the call or a value is wrong, and had no effect.
      Interrupted: the worker has ended.
    """
    with self._changed:
      if self._is_closed:
        raise Interrupted
      self._check_turn(_Turn.OBSERVE)
      reward = _read_reward(reward)
      terminated = _read_flag("terminated", terminated)
      truncated = _read_flag("truncated", truncated)
      observation = self._read(observation)
      self._next = _Turn.ACT
      self._reward = reward
      if terminated or truncated:
        self._begins = True
        self._give((observation, reward, terminated, truncated))

  def take(self) -> tuple[typing.Any, float, bool, bool]:
    """Waits for a step of the loop, which it returns.

    Raises:
      Interrupted: the worker should stop.
    """
    with self._changed:
      while self._observed is None:
        if self._check():
          raise Interrupted
        self._changed.wait(_LOOK_S)
      observed, self._observed = self._observed, None
      self._changed.notify_all()
      return observed

  def give_action(self, action: typing.Any) -> None:
    """Lets `act` return an action."""
    with self._changed:
      self._action, self._has_action = action, True
      self._changed.notify_all()

  def close(self) -> None:
    """Makes the loop's calls raise `Interrupted` from now on."""
    with self._changed:
      self._is_closed = True
      self._changed.notify_all()

  def _give(self, step: tuple[typing.Any, float, bool, bool]) -> None:
    # The worker may not have taken the end of an episode when the next begins.
    while self._observed is not None:
      if self._is_closed:
        raise Interrupted
      self._changed.wait()
    self._observed = step
    self._changed.notify_all()

  def _check_turn(self, called: _Turn) -> None:
    if called is self._next:
      return
    if called is _Turn.ACT:
      raise ValueError(
        "act was called twice in a row, so the first action would have no "
        "result: call observe after each act"
      )
    raise ValueError(
      "observe was called before act, so there is no action that it could "
      "belong to: call act first, and observe once after it"
    )

  def _read(self, observation: typing.Any) -> typing.Any:
    """Returns a copy of an observation of the space.

    Raises:
      ValueError: one line: it is none of the space.
    """
    mismatch = spaces.find_mismatch(self._space, observation)
    if mismatch is not None:
      raise ValueError(f"act or observe got {mismatch}: correct one of them")
    if self._space.shape is None:  # of several parts, such as a Dict
      return copy.deepcopy(observation)
    array = np.array(observation)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
      raise ValueError(
        "act or observe got an observation with numbers that are not finite, "
        "from which nothing can be learned: pass finite ones"
      )
    return array


class ExternalEnvironment(gymnasium.Env):
  """Its steps are those of a loop at the other side of an exchange."""

  def __init__(
    self,
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    exchange: Exchange,
  ):
    """Waits for nothing yet."""
    self.observation_space = observation_space
    self.action_space = action_space
    self._exchange = exchange

  def reset(self, *, seed=None, options=None):
    """Waits for the first observation of an episode; has no use for seeds."""
    return self._exchange.take()[0], {}

  def step(self, action):
    """Passes an action to the loop; waits for what followed."""
    self._exchange.give_action(np.copy(action)[()])
    return *self._exchange.take(), {}


def _read_reward(reward: typing.Any) -> float:
  try:
    number = float(reward)
  except (TypeError, ValueError):
    number = math.nan
  if not math.isfinite(number):
    raise ValueError(
      f"reward is {reward!r:.80}, from which nothing can be learned: pass a "
      "finite number"
    )
  return number


def _read_flag(name: str, value: typing.Any) -> bool:
  if isinstance(value, (bool, np.bool_)):
    return bool(value)
  raise ValueError(
    f"{name} is {value!r:.80}, so the step would not be known to end an "
    "episode or not: pass True or False"
  )
