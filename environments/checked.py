"""CheckedEnvironment: rejects invalid values that an environment returns.

`CheckedEnvironment` replaces gymnasium's PassiveEnvChecker, which checks only
the first step and warns of many harmless values. The module `vector` makes the
checks that are cheaper for a whole batch: whether numbers are finite, and
whether observations form a batch.
"""

import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from slipway.environments import episode_infos, masks, spaces, user_code

# The info that a `CheckedEnvironment` returns if it has nothing of its
# environment's info to keep: a shared dict costs no time.
_NO_INFO: dict = {}
# The accepted values of NumPy's `dtype.kind`, by the kind of value that `step`
# must return.
_DTYPE_KINDS = {"a number": "biuf", "a bool": "biu"}
# The advice for results of another API than gymnasium's, by call.
_OLD_API = (
  ", or wrap an environment of gym before 0.26 in "
  "shimmy.GymV21CompatibilityV0(env=...)"
)
_API = {
  "reset()": "declare reset(self, *, seed=None, options=None), and return "
  f"(observation, info){_OLD_API}",
  "step()": "return (observation, reward, terminated, truncated, info)"
  f"{_OLD_API}",
}


class EnvironmentFault(Exception):
  """An error of one environment of a batch.

  Attributes:
    index: index of the environment in its batch, or None if it is unknown.
    message: description, such as 'step() raised ValueError: boom'.
    cause: the error that the environment raised, or None if it returned an
      invalid value.
  """

  def __init__(
    self, index: int | None, message: str, cause: BaseException | None = None
  ):
    super().__init__(message)
    self.index, self.message, self.cause = index, message, cause

  @classmethod
  def from_error(
    cls, index: int | None, call: str, error: BaseException
  ) -> "EnvironmentFault":
    """Makes the fault for a call, such as 'step()', that raised an error.

    A KeyboardInterrupt is raised again.
    """
    user_code.raise_interrupt(error)
    wrong_api = _find_wrong_api(call, error)
    if wrong_api is not None:  # the traceback has frames of libraries only
      return cls(index, f"{call} {wrong_api}")
    return cls(index, f"{call} raised {user_code.describe(error)}", error)


class EnvironmentFailedError(user_code.UserCodeError):
  """An environment raised an error, or returned unusable values.

  Attributes:
    name: gymnasium id of the environment.
    index: index of the environment in its batch, or None if it is unknown or
      all environments failed.
    seed: seed of the environment's last seeded reset, or None if there was
      none. It is the batch's seed if the batch is stepped as a whole.
    step: number of steps since that reset, including the failed step. If the
      batch is stepped as a whole, autoresets are counted, too.
  """

  def __init__(
    self,
    name: str,
    fault: EnvironmentFault,
    seed: int | None = None,
    step: int = 0,
  ):
    """Makes the message; `seed` and `step` are left out if unknown."""
    self.name, self.index, self.seed, self.step = name, fault.index, seed, step
    numbers = {"index": fault.index, "seed": seed, "step": step or None}
    known = [f"{k} {v}" for k, v in numbers.items() if v is not None]
    where = f" ({', '.join(known)})" if known else ""
    super().__init__(f"environment {name}{where}: {fault.message}", fault.cause)


class InvalidActionError(user_code.UserCodeError):
  """A policy returned actions that no environment can take."""

  def __init__(self, name: str, actions: np.ndarray):
    """Describes actions [B, ...], some of which are not finite."""
    value = actions[~np.isfinite(actions)][0]
    super().__init__(
      f"the policy returned the action {value} for environment {name}, so the "
      "environment was not stepped: its network's outputs are not finite; "
      "lower the learning rate, check the sizes of observations and rewards, "
      "or set config.normalization.observations=True"
    )


class CheckedEnvironment(gymnasium.Wrapper):
  """Wrapper that checks the results of one environment of a batch.

  If the environment raises an error or returns an invalid value, the wrapper's
  methods raise an `EnvironmentFault`. It returns copies of observations, since
  several environments may return the same array, such as a class attribute.

  Attributes:
    index: index of the environment in its batch.
    seed: seed of the last seeded reset, or None if there was none.
    steps: number of steps since that reset.
    observation: what the environment's last reset or step returned.
    ignores_mask: whether the last reset's info had an action mask, which is not
      read.
  """

  def __init__(
    self,
    env: gymnasium.Env,
    index: int,
    masked: bool,
    info_names: Sequence[str] = (),
  ):
    """Wraps an environment; see `BatchChecker`."""
    super().__init__(env)
    self.index = index
    self._masks = masks.MaskReader(env.action_space) if masked else None
    self._infos = episode_infos.InfoReader(info_names) if info_names else None
    self.seed: int | None = None
    self.steps = 0
    self.ignores_mask = False
    self.observation: Any = None
    # The leaves whose values could wrap around in a batch.
    self._integers = [
      leaf
      for leaf in spaces.leaves(env.observation_space)
      if getattr(leaf.space.dtype, "kind", "") in "iu"
    ]

  def reset(self, *, seed=None, options=None):
    """Resets the environment; the info has only the action mask, if any."""
    if seed is not None:
      self.seed, self.steps = seed, 0
    try:
      self.observation, info = self.env.reset(seed=seed, options=options)
    except BaseException as error:
      raise EnvironmentFault.from_error(self.index, "reset()", error) from error
    if not isinstance(info, dict | None):  # an observation of two items
      text = f"reset() returned an observation without info: {_API['reset()']}"
      raise EnvironmentFault(self.index, text)
    if self._integers:
      self._check_integers("reset()")
    observation = copy_observation(self.observation)
    if self._masks is None:
      self.ignores_mask = masks.KEY in (info or {})
      return observation, _NO_INFO
    return observation, self._read_mask("reset()", info, terminated=False)

  def step(self, action):
    """Steps the environment, and checks the types of the results.

    The info has only the action mask, if there are masks, and at an episode's
    end the numbers that are kept.
    """
    self.steps += 1
    try:
      observation, reward, terminated, truncated, info = self.env.step(action)
    except BaseException as error:
      raise EnvironmentFault.from_error(self.index, "step()", error) from error
    if type(reward) is not float:
      self._check_number("reward", reward, "a number")
    if type(terminated) is not bool:
      self._check_number("terminated", terminated, "a bool")
    if type(truncated) is not bool:
      self._check_number("truncated", truncated, "a bool")
    self.observation = observation
    if self._integers:
      self._check_integers("step()")
    observation = copy_observation(observation)
    kept = _NO_INFO
    if self._masks is not None:
      kept = self._read_mask("step()", info, terminated=bool(terminated))
    if self._infos is not None and (terminated or truncated):
      kept = kept | self._infos.read_one(info)
    return observation, reward, terminated, truncated, kept

  def close(self):
    """Closes the environment; its errors become faults."""
    try:
      super().close()
    except BaseException as error:
      raise EnvironmentFault.from_error(self.index, "close()", error) from error

  def find_observation_fault(self, call: str) -> EnvironmentFault | None:
    """Returns a fault if NumPy can't copy the last observation into a batch.

    NumPy copies float64 to float32, for example, but not floats to integers.

    Args:
      call: the call that returned the observation, 'reset()' or 'step()'.
    """
    space = self.env.observation_space
    try:
      mismatch = spaces.find_mismatch(space, self.observation)
    except BaseException as error:  # raised by a method such as __array__
      call = f"reading the observation of {call}"
      return EnvironmentFault.from_error(self.index, call, error)
    if mismatch is None:
      return None
    return EnvironmentFault(
      self.index, f"{call} returned {mismatch}: correct one of them"
    )

  def _check_integers(self, call: str) -> None:
    """Checks that the types of integer leaves can hold the last observation."""
    for leaf in self._integers:
      try:
        value = spaces.select(self.observation, leaf.path)
        # `is`: gymnasium's environments keep the type of their space.
        if getattr(value, "dtype", None) is leaf.space.dtype:
          continue
        overflow = spaces.find_overflow(leaf.space, value)
      except BaseException as error:
        user_code.raise_interrupt(error)
        return  # `find_observation_fault` will describe it
      if overflow is not None:
        where = f"observation{spaces.subscripts(leaf.path)}"
        raise EnvironmentFault(
          self.index,
          f"{call} returned an {where} with {overflow}, which the type of its "
          f"observation_space {spaces.one_line(leaf.space)} can't hold: "
          "correct one of them",
        )

  def _read_mask(
    self, call: str, info: Any, terminated: bool
  ) -> dict[str, np.ndarray]:
    """Returns an info that has only the action mask of another info."""
    assert self._masks is not None
    try:
      return self._masks.read_one(self.index, info, terminated)
    except masks.InvalidMaskError as error:
      raise EnvironmentFault(self.index, f"{call} returned {error}") from None

  def _check_number(self, field: str, value: Any, kind: str) -> None:
    is_valid = isinstance(
      value, (bool, int, float, np.generic, np.ndarray)
    ) and (
      np.size(value) == 1 and np.asarray(value).dtype.kind in _DTYPE_KINDS[kind]
    )
    if not is_valid:
      shown = " ".join(user_code.format_object(value).split())
      raise EnvironmentFault(
        self.index,
        f"step() returned {field}={shown:.80}, which is not {kind}: return "
        "(observation, reward, terminated, truncated, info)",
      )


def _find_wrong_api(call: str, error: BaseException) -> str | None:
  """Returns how a call differs from gymnasium's API and what to do, or None."""
  text = str(error) if isinstance(error, (TypeError, ValueError)) else ""
  if call not in _API or not text or user_code.is_in_user_code(error):
    return None
  if "values to unpack" in text or "cannot unpack" in text:
    return f"returned another result than gymnasium's ({text}): {_API[call]}"
  if call == "reset()" and "argument 'seed'" in text:
    return f"takes no seed: {_API[call]}"
  return None


def copy_observation(observation: Any) -> Any:
  """Returns a copy of an observation of any structure."""
  if isinstance(observation, np.ndarray):
    return observation.copy()
  if type(observation) is dict:
    return {key: copy_observation(x) for key, x in observation.items()}
  if type(observation) is tuple:
    return tuple(map(copy_observation, observation))
  return copy.deepcopy(observation)


class BatchChecker:
  """Function object that wraps each environment of a batch for checks.

  The object can be pickled, because gymnasium stores it in the spec of the
  environments, and `VectorEnvironment.get_state` pickles that spec.

  Attributes:
    count: number of environments wrapped so far, which is the index of the
      next environment.
  """

  def __init__(self, masked: bool = False, info_names: Sequence[str] = ()):
    """Makes a checker whose first environment has index 0.

    Args:
      masked: Whether the environments' infos have action masks.
      info_names: Names of the numbers to keep of an episode's last info.
    """
    self.count, self._masked, self._info_names = 0, masked, tuple(info_names)

  def __call__(self, env: gymnasium.Env) -> CheckedEnvironment:
    """Wraps the next environment of the batch in a `CheckedEnvironment`."""
    checked = CheckedEnvironment(
      env, self.count, self._masked, self._info_names
    )
    self.count += 1
    return checked

  def __repr__(self) -> str:
    return f"BatchChecker(count={self.count})"
