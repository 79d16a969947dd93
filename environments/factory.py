"""Factory: a batch of environments from a gymnasium id.

Three kinds of vector environment stand behind one `VectorEnvironment`:
gymnasium's own NumPy version where the id has one (CartPole), ale_py's C++ one
for `ALE/*` ids, and gymnasium's SyncVectorEnv, a loop, for all others.

An `ALE/*` id keeps what its registration says, so `ALE/Pong-v5` has sticky
actions (`repeat_action_probability` 0.25) unless kwargs say otherwise; the rest
are the defaults of `ale_py.AtariVectorEnv`: 4 grey frames of 84 x 84 stacked,
uint8, frame skip 4, up to 30 no-ops at first. Rewards are those of the game.

An environment with wrappers (`wrappers.make_wrappers`) is always stepped by the
loop.
"""

import copy
import difflib
import importlib
import importlib.util
import inspect
import re
import sys
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
  wrappers,
)

_CLOSE = 0.6  # likeness of a name that is suggested
# Arguments that are fields of the config: there is one way to set each.
_FIELDS = {"max_episode_steps": "time_limit"}
_ATARI_FIELDS = {
  "max_num_frames_per_episode": "time_limit",
  "reward_clipping": "reward_clip",
}
_ATARI_ENTRY_POINT = "ale_py.vector_env:AtariVectorEnv"
_ATARI_FRAME_SKIP = 4  # its default
# JAX, and in gymnasium 1.3.0 one environment's autoreset takes the others of
# the batch back by a step.
_JAX_ENTRY_POINT = "gymnasium.envs.phys2d."


def make(
  config: ml_collections.ConfigDict, num_envs: int, seed: int
) -> vector.VectorEnvironment:
  """Makes `num_envs` environments that are stepped at once.

  Args:
    config: `name`, a gymnasium id such as `CartPole-v1`, `ALE/Pong-v5` or
      `my_package:MyEnv-v0`, or `my_module:MyEnv`, an environment's class;
      `game`, which stands in its place `{game}`, if it
      has one; `kwargs`, a ConfigDict of keyword arguments to its
      constructor (for `ALE/*`, to `ale_py.AtariVectorEnv`). What else the
      `environment` section of a config has may be absent: `action_mask`,
      whether its infos have action masks; `time_limit`, the fields of
      `wrappers.make_wrappers` and of `wrappers.make_reward_reader`.
    num_envs: At least 1.
    seed: At least 0. The same seed gives the same trajectories; environments
      within a batch differ, and so do batches of neighbouring seeds.

  Returns:
    The environments, not yet reset.

  Raises:
    ValueError: In one line, what of the above cannot be served, and why.
    user_code.UserCodeError: The module that registers the id, the constructor
      or a wrapper failed in code that is the user's.
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
  masked = bool(config.get("action_mask", False))
  envs = _construct(config, name, kwargs, num_envs, masked)
  try:
    return vector.VectorEnvironment(
      envs,
      name,
      _spread(seed),
      copy_observations=not is_atari(name),
      masked=masked,
      read_rewards=wrappers.make_reward_reader(config),
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
    step, random = environment.reset(), np.random.default_rng(0)
    environment.step(environment.sample_actions(step.observation, random))
  environment.close()
  return environment.spec


def make_external(
  config: ml_collections.ConfigDict,
) -> tuple[vector.VectorEnvironment, external.Exchange]:
  """Makes one environment that is stepped by another loop.

  The config's own environment is made for its spaces only, which its wrappers
  may have changed.

  Args:
    config: as for `make`.

  Returns:
    The environment, for a worker, and the exchange, for the loop.

  Raises:
    Exception: as `make`.
  """
  name, kwargs = read(config)
  if config.get("action_mask", False):
    raise ValueError(
      "config.environment.action_mask=True is for environments that workers "
      "step, and external processes pass no masks: use "
      "--noconfig.environment.action_mask"
    )
  made = _construct(config, name, kwargs, 1, masked=False)
  made.close()
  spaces = made.single_observation_space, made.single_action_space
  exchange = external.Exchange(spaces[0])
  wrap = checked.Numbering()
  envs = gymnasium.vector.SyncVectorEnv(
    [lambda: wrap(external.ExternalEnvironment(*spaces, exchange))], copy=False
  )
  environment = vector.VectorEnvironment(
    envs, name, seed=0, read_rewards=wrappers.make_reward_reader(config)
  )
  return environment, exchange


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
    The spec, or None where it can't be written to a file, where kwargs are
    those of the vector environment alone, as for `ALE/*`, or where the
    environment is wrapped.

  Raises:
    ValueError: as `make`.
  """
  name, kwargs = read(config)
  if is_atari(name) or wrappers.make_wrappers(config):
    return None
  spec = copy.deepcopy(_find_spec(name))
  spec.kwargs.update(kwargs)
  spec.max_episode_steps = config.get("time_limit", 0) or spec.max_episode_steps
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
  if module and callable(getattr(sys.modules[module], env_id, None)):
    return registration.EnvSpec(f"{env_id}-v0", f"{module}:{env_id}")
  near = _nearest_id(env_id)
  advice = f"did you mean {near!r}? " if near else ""
  raise ValueError(
    f"config.environment.name is {name!r}, which neither gymnasium nor a "
    f"module knows, so no environment can be made: {advice}your own is written "
    "'module:Class', or 'module:Name-v0' if the module registers it"
  )


def _nearest_id(env_id: str) -> str | None:
  """Returns the known id that is close in name; None if none is.

  Namespaces and case count little.
  """

  def likeness(known: str) -> tuple[float, float, int]:
    ratios = (
      difflib.SequenceMatcher(None, env_id.lower(), other.lower()).ratio()
      for other in (known.rpartition("/")[2], known)
    )
    whole = difflib.SequenceMatcher(None, env_id, known).ratio()
    return max(ratios), whole, gymnasium.registry[known].version or 0

  nearest = max(gymnasium.registry, key=likeness)
  return nearest if likeness(nearest)[0] >= _CLOSE else None


def _construct(
  config: ml_collections.ConfigDict,
  name: str,
  kwargs: dict[str, Any],
  num_envs: int,
  masked: bool,
) -> gymnasium.vector.VectorEnv:
  """Calls gymnasium, and explains its errors in the config's terms."""
  spec = _find_spec(name)
  _check_arguments(name, kwargs)
  chain, limit = [], config.get("time_limit", 0)
  arguments: dict[str, Any] = {}
  batching: dict[str, Any] = {}
  if is_atari(name):
    wrappers.check_atari(config)
    # Workers are processes: one core each, instead of every core for each.
    arguments = {"num_threads": 1, "reward_clipping": False}
    if limit:
      frames = limit * kwargs.get("frameskip", _ATARI_FRAME_SKIP)
      arguments["max_num_frames_per_episode"] = frames
  else:
    chain = wrappers.make_wrappers(config)
  mode = "sync" if chain else vectorization_mode(name)
  if limit and mode != "sync" and not _takes_limit(name):
    mode = "sync"
  count_envs = checked.Numbering(masked)
  if mode == "sync":
    if limit:
      arguments["max_episode_steps"] = -1  # no limit of its own
      chain.append(wrappers.limit_episodes(limit))
    # `checked` checks. One buffer serves all steps: VectorEnvironment makes the
    # caller's copy.
    arguments["disable_env_checker"] = True
    if config.get("asynchronous", False):
      chain.append(asynchronous.InThread)
    batching = {
      "vector_kwargs": {"copy": False},
      "wrappers": [*chain, count_envs],
    }
  elif limit and not is_atari(name):
    arguments["max_episode_steps"] = limit
  try:
    return gymnasium.make_vec(
      spec,
      num_envs,
      vectorization_mode=mode,
      **batching,
      **(arguments | kwargs),
    )
  except checked.Fault as fault:
    raise checked.EnvironmentFailedError(name, fault) from fault
  except wrappers.WrapperError:
    raise
  except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
    raise ValueError(
      f"config.environment.name is {name!r}, which needs a package that is not "
      f"installed here, so it cannot be made: {_first_line(error)}"
    ) from error
  except KeyboardInterrupt:
    raise
  except BaseException as error:
    if user_code.is_in_user_code(error):
      index = count_envs.count if mode == "sync" else None
      fault = checked.Fault.from_error(index, "its constructor", error)
      raise checked.EnvironmentFailedError(name, fault) from error
    raise ValueError(_refusal(name, kwargs, error)) from error


def _check_arguments(name: str, kwargs: dict[str, Any]) -> None:
  """Checks that no argument is what something else decides."""
  fields = _FIELDS | (_ATARI_FIELDS if is_atari(name) else {})
  for argument in sorted(fields.keys() & kwargs.keys()):
    raise ValueError(
      f"config.environment.kwargs.{argument} is {kwargs[argument]!r}, but a "
      "field of the config sets this argument, so no environment was made: set "
      f"config.environment.{fields[argument]} instead"
    )
  own = inspect.signature(gymnasium.make_vec).parameters.keys() - {"kwargs"}
  for argument in sorted(own & kwargs.keys()):
    raise ValueError(
      f"config.environment.kwargs.{argument} is {kwargs[argument]!r}, but how "
      "environments are batched is not the constructor's to say, so none was "
      f"made: remove {argument}"
    )


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


def _takes_limit(name: str) -> bool:
  """Whether the constructor of a batch limits episodes itself."""
  return is_atari(name) or "max_episode_steps" in _arguments(name)


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
