"""ExternalEnvironment: an environment that an external loop steps.

A worker calls `reset` and `step` of an environment. A game, a robot or a
service has its own loop, which requests an action and then reports the result.
An `Exchange` connects worker and loop. The worker runs in a thread, and each of
its calls returns once the loop has made the corresponding call.

| the loop calls | the worker's thread |
|---|---|
| `act(o_0)` | `reset()` returns o_0; then calls `step(a_0)` |
| `act` returns a_0 | waits in `step(a_0)` |
| `observe(r_1, False, False, o_1)` | |
| `act(o_1)` | `step(a_0)` returns o_1, r_1; then calls `step(a_1)` |
| `act` returns a_1 | waits in `step(a_1)` |
| `observe(r_2, True, False, o_2)` | `step(a_1)` returns; calls `reset()` |
| `act(o_0)` of the next episode | `reset()` returns o_0 |

An adder returns the last transitions of an episode only after that last
`reset()`. If the worker should stop and no episode follows, `reset()` returns
the last observation again, so that these transitions are not lost.
"""

import math
import threading
import typing
from collections.abc import Callable

import gymnasium
import numpy as np

from slipway.environments import (
  checked,
  conversion,
  inputs,
  masks,
  spaces,
  specs,
)

# Seconds between two checks whether the worker should stop, while the worker
# waits for the loop.
_STOP_CHECK_PERIOD_S = 0.1


class Interrupted(KeyboardInterrupt):
  """Raised by calls of an `Exchange` because the worker has stopped or should.

  The class is a KeyboardInterrupt, since any other error would be reported as
  an error of the environment.
  """


class Step(typing.NamedTuple):
  """What a loop passes to a worker, as a gymnasium environment's `step` does.

  Attributes:
    observation: element of the observation space.
    reward: reward of the last action; 0 at the start of an episode.
    terminated: whether the environment has ended the episode.
    truncated: whether a limit has ended the episode.
    info: the observation's action mask, if there are any.
  """

  observation: typing.Any
  reward: float
  terminated: bool
  truncated: bool
  info: dict[str, np.ndarray]


class Exchange:
  """Passes observations from an external loop to a worker, and actions back.

  The loop's thread calls `act` and `observe`; the worker's thread calls the
  other methods.
  """

  def __init__(
    self,
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    bounded: bool = False,
    masked: bool = False,
  ):
    """Makes an exchange; the loop's first call must be `act`.

    Args:
      observation_space: space of the loop's observations, which are checked.
      bounded: whether observations beyond the space's bounds are errors.
      masked: whether the loop passes action masks.
    """
    self._space, self._masked = observation_space, masked
    self._inputs = inputs.InputReader(observation_space, action_space, bounded)
    # The conversion of a batch of observations to the agents' float32.
    self._convert = conversion.make_observation_converter_to_spec(
      observation_space, np.dtype(np.float32), copy=True
    )
    self._changed = threading.Condition()
    self._has_acted = False  # whether the next call is `observe`
    # Whether the next `act` has the first observation of an episode.
    self._begins_episode = True
    self._pending_step: Step | None = None  # not taken by the worker yet
    self._action: typing.Any = None  # for the loop
    self._has_action = self._is_closed = False
    self._reward = 0.0  # of the step that `observe` reported last
    self._should_stop: Callable[[], bool] = lambda: False

  def set_should_stop(self, should_stop: Callable[[], bool]) -> None:
    """Sets the function that says, ten times per second, to stop the worker."""
    self._should_stop = should_stop

  def act(
    self, observation: typing.Any, action_mask: typing.Any = None
  ) -> typing.Any:
    """Waits for the worker's action for an observation; called by the loop."""
    with self._changed:
      if self._is_closed:
        raise Interrupted
      if self._has_acted:
        raise ValueError(
          "act was called twice in a row, so the first action would have no "
          "result: call observe after each act"
        )
      observation = self._read_observation(observation)
      info = self._read_mask("act", action_mask)
      reward = 0.0 if self._begins_episode else self._reward
      self._begins_episode = False
      self._has_acted = True
      self._pass_step(Step(observation, reward, False, False, info))
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
    action_mask: typing.Any = None,
  ) -> None:
    """Reports the result of the last action; called by the loop.

    The call does not wait for the worker.

    Args:
      terminated: whether the environment has ended the episode.
      truncated: whether a limit has ended the episode.
      action_mask: mask of `observation`, which a truncated episode needs.

    Raises:
      ValueError: the call or a value is invalid, and had no effect.
      Interrupted: the worker has stopped.
    """
    with self._changed:
      if self._is_closed:
        raise Interrupted
      if not self._has_acted:
        raise ValueError(
          "observe was called before act, so there is no action whose result "
          "it could report: call act first, and observe once after it"
        )
      reward = _read_reward(reward)
      terminated = _read_flag("terminated", terminated)
      truncated = _read_flag("truncated", truncated)
      observation = self._read_observation(observation)
      info: dict[str, np.ndarray] = {}
      if action_mask is not None or (truncated and not terminated):
        info = self._read_mask("observe", action_mask)
      self._has_acted = False
      self._reward = reward
      if terminated or truncated:
        self._begins_episode = True
        self._pass_step(Step(observation, reward, terminated, truncated, info))

  def wait_for_step(self) -> Step:
    """Waits for the loop's next step; called by the worker.

    Raises:
      Interrupted: the worker should stop.
    """
    with self._changed:
      while self._pending_step is None:
        if self._should_stop():
          raise Interrupted
        self._changed.wait(_STOP_CHECK_PERIOD_S)
      step, self._pending_step = self._pending_step, None
      self._changed.notify_all()
      return step

  def send_action(self, action: typing.Any) -> None:
    """Sends an action to the loop, whose `act` returns it."""
    with self._changed:
      self._action, self._has_action = action, True
      self._changed.notify_all()

  def close(self) -> None:
    """Makes all further calls of `act` and `observe` raise `Interrupted`."""
    with self._changed:
      self._is_closed = True
      self._changed.notify_all()

  def _pass_step(self, step: Step) -> None:
    """Passes a step to the worker, once it has taken the previous one."""
    # The worker may not have taken an episode's end when the next one begins.
    while self._pending_step is not None:
      if self._is_closed:
        raise Interrupted
      self._changed.wait()
    self._pending_step = step
    self._changed.notify_all()

  def _read_mask(self, method: str, mask: typing.Any) -> dict[str, np.ndarray]:
    """Returns the info with an observation's action mask, if there are any."""
    if not self._masked:
      if mask is not None:
        raise ValueError(
          f"{method} got an action_mask, which has no effect, since "
          "config.environment.action_mask is False: leave it out"
        )
      return {}
    if mask is None:
      raise ValueError(
        f"{method} got no action_mask, since config.environment.action_mask is "
        "True, so illegal actions would be chosen: pass the mask, with ones "
        "for legal actions"
      )
    return {masks.KEY: self._inputs.read_masks(mask, 1)[0]}

  def _read_observation(self, observation: typing.Any) -> typing.Any:
    """Returns a checked copy of an observation, as an element of its space."""
    is_single, batch = self._inputs.read_observation(observation)
    if not is_single:
      raise ValueError(
        "act or observe got a batch of observations, but a loop has one "
        "environment: give an element of its observation_space"
      )
    # The conversions that the worker will make.
    try:
      with np.errstate(over="ignore"):
        inputs.check_size(self._convert(batch))
    except checked.EnvironmentFault as fault:
      raise ValueError(f"act or observe failed: {fault.message}") from None
    leaves = spaces.leaves(self._space)
    values = (np.copy(spaces.select(batch, leaf.path)[0]) for leaf in leaves)
    return spaces.nest(self._space, values)


class ExternalEnvironment(gymnasium.Env):
  """gymnasium environment of a worker, which an external loop steps."""

  def __init__(
    self,
    observation_space: gymnasium.Space,
    action_space: gymnasium.Space,
    exchange: Exchange,
  ):
    """Makes the environment, without waiting for the loop."""
    self.observation_space = observation_space
    self.action_space = action_space
    self._exchange = exchange
    # The step that has ended an episode, until the next reset.
    self._last: Step | None = None
    sizes = spaces.component_sizes(action_space) or ()
    # An observation that no action follows needs no mask of its own.
    self._all_legal = {masks.KEY: np.ones(sum(sizes), np.bool_)}
    # Whether a reset has replaced the next episode's first observation.
    self._is_interrupted = False

  def reset(self, *, seed=None, options=None):
    """Waits for the first observation of an episode; ignores the seed."""
    self._check_not_interrupted()
    last, self._last = self._last, None
    try:
      step = self._exchange.wait_for_step()
      return step.observation, step.info
    except Interrupted:
      if last is None:
        raise
      self._is_interrupted = True
      return last.observation, last.info or self._all_legal

  def step(self, action):
    """Sends an action to the loop, and waits for the result of the action."""
    self._check_not_interrupted()
    self._exchange.send_action(np.copy(action)[()])
    step = self._exchange.wait_for_step()
    if step.terminated or step.truncated:
      self._last = step
    return step

  def _check_not_interrupted(self) -> None:
    """Raises `Interrupted` if a reset has been interrupted."""
    if self._is_interrupted:
      raise Interrupted


def _read_reward(reward: typing.Any) -> float:
  try:
    number = math.nan if isinstance(reward, str | bytes) else float(reward)
  except (TypeError, ValueError, OverflowError):
    number = math.nan
  if not abs(number) <= specs.LARGEST:
    raise ValueError(
      f"reward is {reward!r:.80}, from which nothing can be learned: pass a "
      f"number of at most {specs.LARGEST:g} in size"
    )
  return number


def _read_flag(name: str, value: typing.Any) -> bool:
  if isinstance(value, (bool, np.bool_)):
    return bool(value)
  raise ValueError(
    f"{name} is {value!r:.80}, so it is unknown whether the step ended an "
    "episode: pass True or False"
  )
