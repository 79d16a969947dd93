"""CheckedEnvironment: finds what is wrong with what an environment returns.

It takes the place of gymnasium's PassiveEnvChecker, which looks at the first
step only and warns of much that does no harm. What can be checked for a whole
batch at once, `vector` checks: whether numbers are finite, and whether the
observations make a batch.
"""

from typing import Any

import gymnasium
import numpy as np

from slipway.environments import user_code

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


def describe_misfit(space: gymnasium.Space, observation: Any) -> str | None:
  """Returns why an observation is none of a space, to NumPy's casting rules.

  Returns:
    What follows 'an observation'; None: it fits.

  Raises:
    Exception: of any kind: a method of the observation raised it.
  """
  try:
    array = np.asarray(observation)
  except ValueError:  # lists of different lengths
    array = np.asarray(observation, dtype=object)
  if array.shape == space.shape and np.can_cast(
    array.dtype, space.dtype, "same_kind"
  ):
    return None
  return (
    f"of shape {array.shape} and type {array.dtype}, but its observation_space "
    f"is {' '.join(user_code.show(space, str).split())}: correct one of them"
  )


class CheckedEnvironment(gymnasium.Wrapper):
  """Checks one environment; any error of its own becomes a `Fault`.

  Attributes:
    index: in its batch.
    seed: of the last reset that had one; None: none had.
    steps: since then.
  """

  def __init__(self, env: gymnasium.Env, index: int):
    """Wraps `env`, the environment of an index in its batch."""
    super().__init__(env)
    self.index = index
    self.seed: int | None = None
    self.steps = 0
    self._observation: Any = None  # the last one

  def reset(self, *, seed=None, options=None):
    """Resets the environment; leaves its infos out."""
    if seed is not None:
      self.seed, self.steps = seed, 0
    try:
      self._observation, _ = self.env.reset(seed=seed, options=options)
    except KeyboardInterrupt:
      raise
    except BaseException as error:
      raise Fault.from_error(self.index, "reset()", error) from error
    return self._observation, _NO_INFO

  def step(self, action):
    """Steps the environment; leaves its infos out."""
    self.steps += 1
    try:
      observation, reward, terminated, truncated, _ = self.env.step(action)
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
    return observation, reward, terminated, truncated, _NO_INFO

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
      misfit = describe_misfit(space, self._observation)
    except KeyboardInterrupt:
      raise
    except BaseException as error:  # of a method such as __array__
      call = f"reading the observation of {call}"
      return Fault.from_error(self.index, call, error)
    if misfit is None:
      return None
    return Fault(self.index, f"{call} returned an observation {misfit}")

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

  def __init__(self):
    """Has wrapped none."""
    self.count = 0

  def __call__(self, env: gymnasium.Env) -> CheckedEnvironment:
    """Returns the next environment, checked."""
    checked = CheckedEnvironment(env, self.count)
    self.count += 1
    return checked
