"""Factory: a batch of environments from a gymnasium id.

Three kinds of vector environment stand behind one `VectorEnvironment`:
gymnasium's own NumPy version where the id has one (CartPole), ale_py's C++ one
for `ALE/*` ids, and gymnasium's SyncVectorEnv, a loop, for all others.

An `ALE/*` id keeps what its registration says, so `ALE/Pong-v5` has sticky
actions (`repeat_action_probability` 0.25) unless kwargs say otherwise; the rest
are the defaults of `ale_py.AtariVectorEnv`: 4 grey frames of 84 x 84 stacked,
uint8, frame skip 4, up to 30 no-ops at first, rewards clipped to [-1, 1].
"""

import copy
import difflib
import importlib
import importlib.util
import inspect
import re
from typing import Any

import gymnasium
import ml_collections
import numpy as np
from gymnasium.envs import registration

from slipway.environments import (
  asynchronous,
  checked,
  external,
  specs,
  user_code,
  vector,
)

_ATARI_ENTRY_POINT = "ale_py.vector_env:AtariVectorEnv"
# JAX, and in gymnasium 1.3.0 one environment's autoreset takes the others of
# the batch back by a step.
_JAX_ENTRY_POINT = "gymnasium.envs.phys2d."


def make(
  config: ml_collections.ConfigDict, num_envs: int, seed: int
) -> vector.VectorEnvironment:
  """Makes `num_envs` environments that are stepped at once.

  Args:
    config: `name`, a gymnasium id such as `CartPole-v1`, `ALE/Pong-v5` or
      `my_package:MyEnv-v0`; `game`, which stands in its place `{game}`, if it
      has one; `kwargs`, a ConfigDict of keyword arguments to its
      constructor (for `ALE/*`, to `ale_py.AtariVectorEnv`).
    num_envs: At least 1.
    seed: At least 0. The same seed gives the same trajectories; environments
      within a batch differ, and so do batches of neighbouring seeds.

  Returns:
    The environments, not yet reset.

  Raises:
    ValueError: In one line, what of the above cannot be served, and why.
    user_code.UserCodeError: The module that registers the id, or the
      constructor, failed in code that is the user's.
  """
  if num_envs < 1:
    raise ValueError(
      f"num_envs is {num_envs}: there would be nothing to step; give 1 or more"
    )
  if seed < 0:
    raise ValueError(
      f"seed is {seed}: NumPy's generators take none below 0; give 0 or more"
    )
  name, kwargs = read(config)
  envs = _construct(name, kwargs, num_envs, config.get("asynchronous", False))
  try:
    return vector.VectorEnvironment(
      envs, name, _spread(seed), copy_observations=not is_atari(name)
    )
  except ValueError:
    envs.close()
    raise


def make_spec(config: ml_collections.ConfigDict) -> specs.EnvironmentSpec:
  """Describes the environment that `make` would make.

  One is made and stepped once: what is wrong with an environment shows here,
  before anything is started. One that is external has no steps.

  Raises:
    Exception: as `make`, and `reset`, `step` and `close` of what it makes.
  """
  environment = make(config, num_envs=1, seed=0)
  if not config.get("external", False):
    actions = environment.spec.actions
    environment.reset()
    environment.step(np.zeros((1, *actions.shape), actions.dtype))
  environment.close()
  return environment.spec


def make_external(
  config: ml_collections.ConfigDict,
) -> tuple[vector.VectorEnvironment, external.Exchange]:
  """Makes one environment that is stepped by another loop.

  The config's own environment is made for its spaces only.

  Args:
    config: as for `make`.

  Returns:
    The environment, for a worker, and the exchange, for the loop.

  Raises:
    Exception: as `make`.
  """
  name, kwargs = read(config)
  made = _construct(name, kwargs, 1)
  made.close()
  spaces = made.single_observation_space, made.single_action_space
  exchange = external.Exchange(spaces[0])
  wrap = checked.Numbering()
  envs = gymnasium.vector.SyncVectorEnv(
    [lambda: wrap(external.ExternalEnvironment(*spaces, exchange))], copy=False
  )
  return vector.VectorEnvironment(envs, name, seed=0), exchange


def read(config: ml_collections.ConfigDict) -> tuple[str, dict[str, Any]]:
  """Returns the id and the constructor's arguments, checked for their types."""
  name: Any = config.name
  kwargs: Any = config.kwargs
  if not isinstance(name, str):
    raise ValueError(
      f"config.environment.name is {name!r}, not text, so no environment can "
      "be made: give a gymnasium id such as 'CartPole-v1'"
    )
  if not isinstance(kwargs, ml_collections.ConfigDict):
    raise ValueError(
      f"config.environment.kwargs is {kwargs!r}, not a ConfigDict, so "
      f"{name!r} cannot be made: give ConfigDict() for no arguments"
    )
  return name.replace("{game}", config.get("game", "")), kwargs.to_dict()


def make_gymnasium_spec(
  config: ml_collections.ConfigDict,
) -> registration.EnvSpec | None:
  """Returns what `gymnasium.make` takes to make one environment of a config.

  Returns:
    The spec, or None where it can't be written to a file, or where kwargs are
    those of the vector environment alone, as for `ALE/*`.

  Raises:
    ValueError: as `make`.
  """
  name, kwargs = read(config)
  if is_atari(name):
    return None
  spec = copy.deepcopy(_find_spec(name))
  spec.kwargs.update(kwargs)
  try:
    spec.to_json()
  except ValueError:
    return None
  return spec


def is_atari(name: str) -> bool:
  """Whether `make` makes an `ale_py.AtariVectorEnv` of this id."""
  return _find_spec(name).vector_entry_point == _ATARI_ENTRY_POINT


def vectorization_mode(name: str) -> str:
  """Names the vectorization mode of gymnasium that serves an id best."""
  spec = _find_spec(name)
  entry_point = spec.vector_entry_point
  if (
    entry_point is None
    or spec.additional_wrappers
    or str(entry_point).startswith(_JAX_ENTRY_POINT)
  ):
    return "sync"
  return "vector_entry_point"


def _find_spec(name: str) -> registration.EnvSpec:
  """Looks an id up, importing what registers it only where it is needed."""
  module, _, env_id = name.rpartition(":")
  try:
    if module:
      importlib.import_module(module)
    elif env_id not in gymnasium.registry and importlib.util.find_spec(
      "ale_py"
    ):
      importlib.import_module("ale_py")
  except KeyboardInterrupt:
    raise
  except BaseException as error:
    line = (
      f"config.environment.name is {name!r}, but importing {module or 'ale_py'}"
      f" failed ({user_code.describe(error)}), so nothing registers that id: "
      "correct the module, or the part before the colon"
    )
    if user_code.is_in_user_code(error):
      raise user_code.UserCodeError(line, error) from error
    raise ValueError(line) from error
  if env_id in gymnasium.registry:
    return gymnasium.registry[env_id]
  raise ValueError(
    f"config.environment.name is {name!r}, an id that gymnasium does not know, "
    f"so no environment can be made: the nearest known id is "
    f"{_nearest_id(env_id)!r}; an id of your own package is written "
    "'package:Name-v0'"
  )


def _nearest_id(env_id: str) -> str:
  """Returns the known id nearest in name; namespaces and case count little."""

  def likeness(known: str) -> tuple[float, float, int]:
    ratios = (
      difflib.SequenceMatcher(None, env_id.lower(), other.lower()).ratio()
      for other in (known.rpartition("/")[2], known)
    )
    whole = difflib.SequenceMatcher(None, env_id, known).ratio()
    return max(ratios), whole, gymnasium.registry[known].version or 0

  return max(gymnasium.registry, key=likeness)


def _construct(
  name: str, kwargs: dict[str, Any], num_envs: int, in_threads: bool = False
) -> gymnasium.vector.VectorEnv:
  """Calls gymnasium, and explains its errors in the config's terms."""
  spec = _find_spec(name)
  mode = vectorization_mode(name)
  own = inspect.signature(gymnasium.make_vec).parameters.keys() - {"kwargs"}
  for argument in sorted(own & kwargs.keys()):
    raise ValueError(
      f"config.environment.kwargs.{argument} is {kwargs[argument]!r}, but how "
      "environments are batched is not the constructor's to say, so none was "
      f"made: remove {argument}"
    )
  defaults: dict[str, Any] = {}
  batching: dict[str, Any] = {}
  wrap = checked.Numbering()
  if mode == "sync":
    # `checked` checks. One buffer serves all steps: VectorEnvironment makes the
    # caller's copy.
    defaults["disable_env_checker"] = True
    wrappers = [asynchronous.InThread, wrap] if in_threads else [wrap]
    batching = {"vector_kwargs": {"copy": False}, "wrappers": wrappers}
  if is_atari(name):
    # Workers are processes: one core each, instead of every core for each.
    defaults["num_threads"] = 1
  try:
    return gymnasium.make_vec(
      spec.id,
      num_envs,
      vectorization_mode=mode,
      **batching,
      **(defaults | kwargs),
    )
  except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
    raise ValueError(
      f"config.environment.name is {name!r}, which needs a package that is not "
      f"installed here, so it cannot be made: {_first_line(error)}"
    ) from error
  except KeyboardInterrupt:
    raise
  except BaseException as error:
    if user_code.is_in_user_code(error):
      index = wrap.count if mode == "sync" else None
      fault = checked.Fault.from_error(index, "its constructor", error)
      raise checked.EnvironmentFailedError(name, fault) from error
    raise ValueError(_refusal(name, kwargs, error)) from error


def _refusal(name: str, kwargs: dict[str, Any], error: BaseException) -> str:
  """Says in one line why a constructor did not take its arguments."""
  unknown = re.search(
    r"unexpected keyword argument '(\w+)'", user_code.describe(error)
  )
  if unknown and unknown[1] in kwargs:
    return (
      f"config.environment.kwargs.{unknown[1]} is {kwargs[unknown[1]]!r}, "
      f"which the constructor of {name!r} does not take, so it cannot be made: "
      f"it takes {', '.join(_arguments(name))}"
    )
  return (
    f"config.environment.kwargs is {kwargs}, with which the constructor of "
    f"{name!r} fails, so it cannot be made: {user_code.describe(error)}"
  )


def _arguments(name: str) -> list[str]:
  """Returns the names of the arguments that an id's constructor takes."""
  spec = _find_spec(name)
  entry_point: Any = spec.entry_point
  if vectorization_mode(name) == "vector_entry_point":
    entry_point = spec.vector_entry_point
  if isinstance(entry_point, str):
    entry_point = registration.load_env_creator(entry_point)
  taken = inspect.signature(entry_point).parameters.keys()
  return sorted(taken - {"num_envs"})


def _first_line(error: Exception) -> str:
  text = user_code.show(error, str)
  return (text or type(error).__name__).splitlines()[0]


def _spread(seed: int) -> int:
  """Returns a seed far from that of `seed` + 1.

  gymnasium gives environment i the seed s + i, so batches of neighbouring
  seeds would share all but one of their environments. The result leaves room
  below 2^31, where ale_py's seeds end.
  """
  return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 2)
