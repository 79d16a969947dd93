"""CheckedEnvironment: finds what is wrong with what an environment returns.

It takes the place of gymnasium's PassiveEnvChecker, which looks at the first
step only and warns of much that does no harm. What can be checked for a whole
batch at once, `vector` checks: whether numbers are finite, and whether the
observations make a batch.
"""

from typing import Any

import gymnasium
import numpy as np

from slipway.environments import masks, spaces, user_code

_NO_INFO: dict = {}
_NUMBERS = {"a number": "biuf", "a bool": "biu"}  # NumPy's kinds


class Fault(Exception):
  """What one environment of a batch did wrong.

  Attributes:
    index: of the environment in its batch; None: not known.
    what: 'step() raised ValueError: boom'.
    cause: the error that its code raised; None: it raised none.
  """

  def __init__(
    self, index: int | None, what: str, cause: BaseException | None = None
  ):
    """Keeps the attributes."""
    super().__init__(what)
    self.index, self.what, self.cause = index, what, cause

  @classmethod
  def from_error(
    cls, index: int | None, call: str, error: BaseException
  ) -> "Fault":
    """Returns the fault that a call raised an error."""
    return cls(index, f"{call} raised {user_code.describe(error)}", error)


class EnvironmentFailedError(user_code.UserCodeError):
  """An environment raised an error, or returned what can't be learned from.

  Attributes:
    name: the gymnasium id.
    index: of the environment in its batch; None: not known, or all of them.
    seed: with which that environment was reset; where it has no reset of its
      own, that of its batch; None: it was not reset.
    step: steps since then, the one that failed included; of a batch that is one
      environment for gymnasium, autoresets too.
  """

  def __init__(
    self,
    name: str,
    fault: Fault,
    seed: int | None = None,
    step: int = 0,
  ):
    """Says which environment it is, and what it did."""
    self.name, self.index, self.seed, self.step = name, fault.index, seed, step
    numbers = {"index": fault.index, "seed": seed, "step": step or None}
    known = [f"{k} {v}" for k, v in numbers.items() if v is not None]
    where = f" ({', '.join(known)})" if known else ""
    super().__init__(f"environment {name}{where}: {fault.what}", fault.cause)


class CheckedEnvironment(gymnasium.Wrapper):
  """Checks one environment; any error of its own becomes a `Fault`.

  Attributes:
    index: in its batch.
    seed: of the last reset that had one; None: none had.
    steps: since then.
  """

  def __init__(self, env: gymnasium.Env, index: int, masked: bool = False):
    """Wraps an environment.

    Args:
      env: The environment.
      index: In its batch.
      masked: Whether its infos have action masks.
    """
    super().__init__(env)
    self.index = index
    self._masks = masks.MaskReader(env.action_space) if masked else None
    self.seed: int | None = None
    self.steps = 0
    self._observation: Any = None  # the last one

  def reset(self, *, seed=None, options=None):
    """Resets the environment; of its infos, only the mask is returned."""
    if seed is not None:
      self.seed, self.steps = seed, 0
    try:
      self._observation, info = self.env.reset(seed=seed, options=options)
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      raise Fault.from_error(self.index, "reset()", error) from error
    if self._masks is None:
      return self._observation, _NO_INFO
    return self._observation, self._read_mask("reset()", info, False)

  def step(self, action):
    """Steps the environment; of its infos, only the mask is returned."""
    self.steps += 1
    try:
      observation, reward, terminated, truncated, info = self.env.step(action)
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      raise Fault.from_error(self.index, "step()", error) from error
    if type(reward) is not float:
      self._check_number("reward", reward, "a number")
    if type(terminated) is not bool:
      self._check_number("terminated", terminated, "a bool")
    if type(truncated) is not bool:
      self._check_number("truncated", truncated, "a bool")
    self._observation = observation
    if self._masks is None:
      return observation, reward, terminated, truncated, _NO_INFO
    info = self._read_mask("step()", info, bool(terminated))
    return observation, reward, terminated, truncated, info

  def close(self):
    """Closes the environment."""
    try:
      super().close()
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      raise Fault.from_error(self.index, "close()", error) from error

  def find_observation_fault(self, call: str) -> Fault | None:
    """Returns why NumPy can't copy the last observation into a batch, if so.

    It copies float64 to float32, for one, but no floats to integers.

    Args:
      call: that returned the observation: 'step()'.
    """
    space = self.env.observation_space
    try:
      mismatch = spaces.find_mismatch(space, self._observation)
    except KeyboardInterrupt:
      raise
    except BaseException as error:  # of a method such as __array__
      call = f"reading the observation of {call}"
      return Fault.from_error(self.index, call, error)
    if mismatch is None:
      return None
    return Fault(self.index, f"{call} returned {mismatch}: correct one of them")

  def _read_mask(
    self, call: str, info: Any, terminated: bool
  ) -> dict[str, np.ndarray]:
    assert self._masks is not None
    try:
      return self._masks.read_one(self.index, info, terminated)
    except masks.InvalidMaskError as error:
      raise Fault(self.index, f"{call} returned {error}") from None

  def _check_number(self, field: str, value: Any, needed: str) -> None:
    number = isinstance(value, (bool, int, float, np.generic, np.ndarray)) and (
      np.size(value) == 1 and np.asarray(value).dtype.kind in _NUMBERS[needed]
    )
    if not number:
      shown = " ".join(user_code.show(value).split())
      raise Fault(
        self.index,
        f"step() returned {field}={shown:.80}, which is not {needed}: return "
        "(observation, reward, terminated, truncated, info)",
      )


class Numbering:
  """Wraps the environments of a batch, which it numbers from 0.

  It is kept with them, and can be pickled as they can.

  Attributes:
    count: environments so far.
  """

  def __init__(self, masked: bool = False):
    """Has wrapped none.

    Args:
      masked: Whether the environments' infos have action masks.
    """
    self.count, self._masked = 0, masked

  def __call__(self, env: gymnasium.Env) -> CheckedEnvironment:
    """Returns the next environment, checked."""
    checked = CheckedEnvironment(env, self.count, self._masked)
    self.count += 1
    return checked

  def __repr__(self) -> str:
    """Returns the same for the same state, unlike an address."""
    return f"Numbering(count={self.count})"
