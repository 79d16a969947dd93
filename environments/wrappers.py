"""Wrappers: makes environment wrappers and reward transforms from a config.

The order of the config fields from the innermost wrapper to the outermost is
`frame_skip`, `wrappers`, `frame_stack`, `time_limit`. So an image wrapper runs
once per environment step, frames are stacked after the wrappers have processed
them, and a time limit counts environment steps, each of which is `frame_skip`
frames.
"""

import functools
import math
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import ml_collections
import numpy as np
from gymnasium import wrappers as gymnasium_wrappers

from slipway.environments import checked, conversion, user_code

# A function that returns an environment around the given environment.
Wrapper = Callable[[gymnasium.Env], gymnasium.Env]

# Config fields of `environment` that don't apply to `ALE/*` ids, and the
# arguments of `ale_py.AtariVectorEnv` with the same effect.
_ATARI_ARGUMENTS = {"frame_skip": "frameskip", "frame_stack": "stack_num"}


# gymnasium's wrappers whose state changes neither observations nor rewards.
_HARMLESS = (
  gymnasium_wrappers.OrderEnforcing,
  gymnasium_wrappers.RecordEpisodeStatistics,
  gymnasium_wrappers.RecordVideo,
  checked.CheckedEnvironment,
)
# Config fields that do what wrappers of gymnasium do, by the wrappers' names.
_REPLACED_BY = {
  "NormalizeObservation": "config.normalization.observations",
  "NormalizeReward": "config.normalization.rewards",
}


class WrapperError(ValueError):
  """A wrapper can't be called, or did not return an environment."""


def make_wrappers(config: ml_collections.ConfigDict) -> list[Wrapper]:
  """Returns the wrappers that a config defines, the innermost first.

  The functions can be pickled, because gymnasium stores them in the spec of the
  environments, and `VectorEnvironment.get_state` pickles that spec. The wrapper
  of the time limit is not among the functions; see `make_time_limit`.

  Args:
    config: The `environment` section of a config, with the optional fields
      `frame_skip`, `wrappers` and `frame_stack`.

  Raises:
    ValueError: A wrapper can't be imported, or can't be called.
    user_code.UserCodeError: The module of a wrapper failed.
  """
  found: list[Wrapper] = []
  skip, stack = config.get("frame_skip", 1), config.get("frame_stack", 0)
  if skip > 1:
    found.append(_CopiedActions)
    found.append(
      functools.partial(gymnasium_wrappers.RepeatAction, num_repeats=skip)
    )
  found += [_UserWrapper(name) for name in config.get("wrappers", ())]
  if stack:
    found.append(_CopiedObservations)
    found.append(
      functools.partial(
        gymnasium_wrappers.FrameStackObservation, stack_size=stack
      )
    )
  return found


def save_states(env: gymnasium.Env) -> dict[str, bytes | None]:
  """Returns the attributes of an environment's wrappers, pickled, by name.

  Functions are left out, and so are wrappers of gymnasium that keep only
  statistics. The value is None for a wrapper that can't be pickled.
  """
  states: dict[str, bytes | None] = {}
  while isinstance(env, gymnasium.Wrapper):
    attributes = {
      k: v for k, v in vars(env).items() if k != "env" and not callable(v)
    }
    if type(env) not in _HARMLESS:
      try:
        states[type(env).__name__] = pickle.dumps(attributes)
      except Exception:  # of any type, from user code
        states[type(env).__name__] = None
    env = env.env
  return states


def advise_on_state(name: str) -> str:
  """Returns what to do about a wrapper whose state outlasts episodes."""
  field = _REPLACED_BY.get(name)
  if field is not None:
    return f"leave it out, and set {field}=True, which a run saves"
  return "give it constants in place of what it measures"


def make_time_limit(steps: int) -> Wrapper:
  """Returns a wrapper that truncates episodes."""
  return functools.partial(
    gymnasium_wrappers.TimeLimit, max_episode_steps=steps
  )


def check_atari(config: ml_collections.ConfigDict) -> None:
  """Checks that a config for an `ALE/*` id sets no wrappers.

  `ale_py` steps Atari games as one batch, so single games can't be wrapped.

  Args:
    config: The `environment` section of a config.

  Raises:
    ValueError: A field sets a wrapper.
  """
  for field, argument in _ATARI_ARGUMENTS.items():
    value = config.get(field, 0)
    if value > 1:  # 0 and 1 need no wrapper
      raise ValueError(
        f"config.environment.{field} is {value!r}, but ale_py steps the games "
        "as one batch, in which no single game can be wrapped: set "
        f"config.environment.kwargs.{argument}"
      )
  names = config.get("wrappers", ())
  if names:
    raise ValueError(
      f"config.environment.wrappers is {names!r}, but ale_py steps the games "
      "as one batch, in which no single game can be wrapped: leave wrappers "
      "out, or register an environment of your own that wraps one game"
    )


def make_reward_transform(
  config: ml_collections.ConfigDict,
) -> conversion.Convert | None:
  """Returns the function that scales and clips rewards for learning, or None.

    min(max(scale * reward, -clip), clip)

  Args:
    config: The `environment` section of a config, with the optional fields
      `reward_scale` and `reward_clip`.

  Returns:
    A function from rewards, float32 [B], to rewards for learning, float32 [B].
    None if the config neither scales nor clips rewards.
  """
  scale = np.float32(config.get("reward_scale", 1.0))
  clip = np.float32(config.get("reward_clip", 0.0) or math.inf)
  if scale == 1 and clip == math.inf:
    return None
  # np.clip takes three times as long for small arrays.
  return lambda rewards: np.minimum(np.maximum(scale * rewards, -clip), clip)


class _CopiedObservations(gymnasium.ObservationWrapper):
  """Wrapper that returns copies of observations."""

  # gymnasium's stack keeps the last observations, not copies of them, which an
  # environment may overwrite.

  def observation(self, observation: Any) -> Any:
    """Returns a copy of an observation of the space's structure."""
    return checked.copy_observation(observation)


class _CopiedActions(gymnasium.ActionWrapper):
  """Wrapper that passes copies of actions to its environment."""

  # gymnasium repeats the same array, which an environment may change in place.

  def action(self, action: Any) -> Any:
    """Returns a copy of an action if the action is an array."""
    return action.copy() if isinstance(action, np.ndarray) else action


class _UserWrapper:
  """Function object that calls a wrapper of the user's own code."""

  def __init__(self, name: str):
    """Imports the wrapper, 'module:Name'."""
    self._name = name
    error_prefix = f"config.environment.wrappers has {name!r}, which"
    self._wrap = user_code.load(
      error_prefix, name, "a function or class that takes an environment"
    )
    if not callable(self._wrap):
      raise ValueError(
        f"{error_prefix} is of type {type(self._wrap).__name__} and can't be "
        "called, so no environment could be made: give a function or class "
        "that takes one"
      )

  def __call__(self, env: gymnasium.Env) -> gymnasium.Env:
    try:
      wrapped = self._wrap(env)
    except BaseException as error:
      user_code.raise_interrupt(error)
      if user_code.is_in_user_code(error):
        call = f"the wrapper {self._name!r}"
        raise checked.EnvironmentFault.from_error(None, call, error) from error
      raise WrapperError(
        f"config.environment.wrappers has {self._name!r}, which can't be "
        f"called with an environment ({user_code.describe(error)}), so none "
        "was made: give the name of your own function that passes the other "
        "arguments"
      ) from error
    if not isinstance(wrapped, gymnasium.Env):
      raise WrapperError(
        f"config.environment.wrappers has {self._name!r}, which returned an "
        f"object of type {type(wrapped).__name__}, so there is nothing to "
        "step: return a gymnasium.Env"
      )
    return wrapped

  def __repr__(self) -> str:
    """Returns 'module:Name', which gymnasium's environment specs show."""
    return self._name
