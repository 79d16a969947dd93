"""Factory: creates batches of environments from a config.

`VectorEnvironment` hides three kinds of vector environment: gymnasium's own
NumPy version where the id has one (CartPole), ale_py's C++ version for `ALE/*`
ids, and gymnasium's SyncVectorEnv, a Python loop, for all others and for
environments with wrappers (`wrappers.make_wrappers`).

An `ALE/*` id keeps the arguments of its registration, so `ALE/Pong-v5` has
sticky actions (`repeat_action_probability` 0.25) unless kwargs change them.
Other arguments have the defaults of `ale_py.AtariVectorEnv`: 4 stacked uint8
frames of 84 x 84 in grey, frame skip 4, up to 30 no-ops at an episode's start.
Rewards are the game's own.
"""

import copy
import difflib
import importlib
import importlib.util
import inspect
import re
import sys
import warnings
from typing import Any

import gymnasium
import ml_collections
import numpy as np
from gymnasium.envs import registration

from slipway.configs import base
from slipway.environments import (
  asynchronous,
  checked,
  external,
  process_settings,
  specs,
  user_code,
  vector,
  wrappers,
)

# The lowest similarity, in [0, 1], of an unknown gymnasium id and a known id
# that the error message suggests.
_MIN_SIMILARITY = 0.6
# Constructor arguments that `environment.kwargs` must not contain, and the
# config field of `environment` that sets each of them.
_FIELDS_OF_ARGUMENTS = {"max_episode_steps": "time_limit"}
# The same for the additional arguments of `ale_py.AtariVectorEnv`.
_FIELDS_OF_ATARI_ARGUMENTS = {
  "max_num_frames_per_episode": "time_limit",
  "reward_clipping": "reward_clip",
}
# The vector entry point in gymnasium's registry that marks an id as Atari.
_ATARI_ENTRY_POINT = "ale_py.vector_env:AtariVectorEnv"
# The module that registers the DeepMind Control Suite, an optional extra.
_DM_CONTROL_MODULE = "shimmy"
# The default of AtariVectorEnv's argument `frameskip`, in frames per step.
_ATARI_FRAME_SKIP = 4
# Prefix of the vector entry points that are not used: they need JAX, and in
# gymnasium 1.3.0 the autoreset of one environment undoes a step of the others.
_JAX_ENTRY_POINT = "gymnasium.envs.phys2d."


def make(
  config: ml_collections.ConfigDict, num_envs: int, seed: int
) -> vector.VectorEnvironment:
  """Makes a batch of environments from a config.

  Args:
    config: The `environment` section of a config. `name` is a gymnasium id such
      as `CartPole-v1`, `ALE/Pong-v5` or `my_package:MyEnv-v0`, or a class such
      as `my_module:MyEnv`; `game` replaces `{game}` in it; `kwargs` is a
      ConfigDict of keyword arguments of the constructor (for `ALE/*`, of
      `ale_py.AtariVectorEnv`). Optional fields: `action_mask`, `time_limit`,
      `asynchronous`, those of `wrappers.make_wrappers` and of
      `wrappers.make_reward_transform`.
    num_envs: Number of environments, at least 1.
    seed: Seed of the batch, at least 0. The same seed gives the same
      trajectories; all environments of batches with different seeds differ.

  Returns:
    The environments, not yet reset.

  Raises:
    ValueError: An argument is invalid, or not supported.
    user_code.UserCodeError: The user's own code failed: the module that
      registers the id, the constructor or a wrapper.
  """
  if num_envs < 1:
    raise ValueError(
      f"num_envs is {num_envs}: there would be nothing to step; give 1 or more"
    )
  if seed < 0:
    raise ValueError(
      f"seed is {seed}: NumPy's generators take none below 0; give 0 or more"
    )
  name, kwargs = get_name_and_kwargs(config)
  masked = bool(config.get("action_mask", False))
  envs = _construct(config, name, kwargs, num_envs, masked)
  try:
    return vector.VectorEnvironment(
      envs,
      name,
      _spread_seed(seed),
      copy_observations=not is_atari(name),
      masked=masked,
      transform_rewards=wrappers.make_reward_transform(config),
    )
  except ValueError:
    envs.close()
    raise


def make_spec(config: ml_collections.ConfigDict) -> specs.EnvironmentSpec:
  """Returns the spec of a config's environments.

  The function makes one environment and steps it once, so that its errors
  appear before the run starts. External environments are not stepped.

  Args:
    config: `environment` section of a config, as for `make`.

  Raises:
    Exception: as `make`, and as the environment's `reset`, `step` and `close`.
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
  """Makes an environment that an external loop steps, and their exchange.

  The environment that the config names, with its wrappers, only defines the
  spaces; it is never stepped.

  Args:
    config: `environment` section of a config, as for `make`.

  Returns:
    The environment, which a worker steps, and the exchange, which the loop
    calls.

  Raises:
    Exception: as `make`.
  """
  name, kwargs = get_name_and_kwargs(config)
  base.check_external(config)
  template = _construct(config, name, kwargs, 1, masked=False)
  template.close()
  spaces = template.single_observation_space, template.single_action_space
  exchange = external.Exchange(spaces[0])
  check = checked.BatchChecker()
  envs = gymnasium.vector.SyncVectorEnv(
    [lambda: check(external.ExternalEnvironment(*spaces, exchange))], copy=False
  )
  environment = vector.VectorEnvironment(
    envs,
    name,
    seed=0,
    transform_rewards=wrappers.make_reward_transform(config),
  )
  return environment, exchange


def get_name_and_kwargs(
  config: ml_collections.ConfigDict,
) -> tuple[str, dict[str, Any]]:
  """Returns an environment's gymnasium id and constructor arguments.

  Args:
    config: `environment` section of a config.

  Returns:
    The id, in which the game replaces `{game}`, and the keyword arguments.

  Raises:
    ValueError: `name` is not text, or `kwargs` is not a ConfigDict.
  """
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


def find_reward_threshold(config: ml_collections.ConfigDict) -> float | None:
  """Returns the return at which gymnasium calls an environment solved.

  Args:
    config: `environment` section of a config, as for `make`.

  Returns:
    The `reward_threshold` of the id's registration, or None if it has none.

  Raises:
    Exception: as `make`, for a name that is unknown or fails to be imported.
  """
  threshold = _find_spec(get_name_and_kwargs(config)[0]).reward_threshold
  return None if threshold is None else float(threshold)


def make_gymnasium_spec(
  config: ml_collections.ConfigDict,
) -> registration.EnvSpec | None:
  """Returns the gymnasium spec of a config's environment, for recordings.

  `gymnasium.make` makes a single environment from such a spec.

  Args:
    config: `environment` section of a config, as for `make`.

  Returns:
    The spec, or None if the spec can't be written to a file, if the kwargs are
    those of a vector environment (`ALE/*`), or if the environment has wrappers.

  Raises:
    ValueError: as `make`.
  """
  name, kwargs = get_name_and_kwargs(config)
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
  """Returns whether `make` makes an `ale_py.AtariVectorEnv` for an id.

  Args:
    name: gymnasium id, or 'module:Class'.
  """
  return _find_spec(name).vector_entry_point == _ATARI_ENTRY_POINT


def vectorization_mode(name: str) -> str:
  """Returns gymnasium's vectorization mode for an id.

  Args:
    name: gymnasium id, or 'module:Class'.

  Returns:
    'sync', a Python loop over the environments, or 'vector_entry_point', the
    id's own vector environment.
  """
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
  """Returns gymnasium's spec of an id; imports the id's module if necessary.

  Args:
    name: gymnasium id, or 'module:Class', which needs no registration.

  Raises:
    ValueError: the id does not exist, or importing a library failed.
    user_code.UserCodeError: importing the user's own module failed.
  """
  module, _, env_id = name.rpartition(":")
  if module == "__main__":
    raise ValueError(
      f"config.environment.name is {name!r}, but the processes of a run can't "
      "import the script or notebook that starts it: put the environment in a "
      ".py file of its own, and give 'file:Name'"
    )
  try:
    if module:
      with warnings.catch_warnings():
        # dm_control looks for a display, which only its viewer needs.
        warnings.filterwarnings("ignore", ".*DISPLAY", module="glfw")
        user_code.import_module(module)
    elif env_id not in gymnasium.registry and importlib.util.find_spec(
      "ale_py"
    ):
      importlib.import_module("ale_py")
  except KeyboardInterrupt:
    raise
  except BaseException as error:
    advice = (
      "run pip install 'slipway[dm_control]'"
      if module == _DM_CONTROL_MODULE
      else "correct the module, or the text before the colon"
    )
    line = (
      f"config.environment.name is {name!r}, but importing {module or 'ale_py'}"
      f" failed ({user_code.describe(error)}), so the id is not registered: "
      f"{advice}"
    )
    if user_code.is_in_user_code(error):
      raise user_code.UserCodeError(line, error) from error
    raise ValueError(line) from error
  if env_id in gymnasium.registry:
    return gymnasium.registry[env_id]
  if module and callable(getattr(sys.modules[module], env_id, None)):
    return registration.EnvSpec(f"{env_id}-v0", f"{module}:{env_id}")
  near = _nearest_id(env_id)
  if near and module:
    near = f"{module}:{near}"
  advice = f"did you mean {near!r}? " if near else ""
  raise ValueError(
    f"config.environment.name is {name!r}, which neither gymnasium nor a "
    f"module knows, so no environment can be made: {advice}your own is written "
    "'module:Class', or 'module:Name-v0' if the module registers it"
  )


def _nearest_id(env_id: str) -> str | None:
  """Returns the registered id most similar to an unknown id.

  Namespaces and case matter only between equally similar names.

  Args:
    env_id: unknown gymnasium id.

  Returns:
    The known id, or None if none is similar.
  """

  def similarity(known: str) -> tuple[float, float, int]:
    """Returns a registered id's sort key; its first number is in [0, 1]."""
    ratios = (
      difflib.SequenceMatcher(None, env_id.lower(), other.lower()).ratio()
      for other in (known.rpartition("/")[2], known)
    )
    whole = difflib.SequenceMatcher(None, env_id, known).ratio()
    return max(ratios), whole, gymnasium.registry[known].version or 0

  nearest = max(gymnasium.registry, key=similarity)
  return nearest if similarity(nearest)[0] >= _MIN_SIMILARITY else None


def _construct(
  config: ml_collections.ConfigDict,
  name: str,
  kwargs: dict[str, Any],
  num_envs: int,
  masked: bool,
) -> gymnasium.vector.VectorEnv:
  """Makes gymnasium's vector environment for a config.

  Args:
    config: The `environment` section of a config.
    name: gymnasium id, or 'module:Class'.
    kwargs: Keyword arguments of the constructor.
    num_envs: Number of environments.
    masked: Whether the environments' infos have action masks.

  Raises:
    ValueError: An argument is invalid; the message names the config field.
    user_code.UserCodeError: The user's own code failed.
  """
  spec = _find_spec(name)
  _check_arguments(name, kwargs)
  threaded = config.get("asynchronous", False)
  if threaded:
    _check_asynchronous(name, spec)
  env_wrappers, limit = [], config.get("time_limit", 0)
  arguments: dict[str, Any] = {}
  batching: dict[str, Any] = {}
  if is_atari(name):
    wrappers.check_atari(config)
    # Each worker is a process for one core, so it needs one thread only.
    arguments = {"num_threads": 1, "reward_clipping": False}
    if limit:
      frames = limit * kwargs.get("frameskip", _ATARI_FRAME_SKIP)
      arguments["max_num_frames_per_episode"] = frames
  else:
    env_wrappers = wrappers.make_wrappers(config)
  mode = vectorization_mode(name)
  if env_wrappers or threaded:
    mode = "sync"
  if limit and mode != "sync" and not _takes_time_limit(name):
    mode = "sync"
  check_envs = checked.BatchChecker(masked)
  if mode == "sync":
    if limit:
      arguments["max_episode_steps"] = -1  # no limit of its own
      env_wrappers.append(wrappers.make_time_limit(limit))
    # BatchChecker replaces gymnasium's checker. All steps share one buffer,
    # which VectorEnvironment copies for the caller.
    arguments["disable_env_checker"] = True
    if threaded:
      env_wrappers.append(asynchronous.ThreadedEnvironment)
    batching = {
      "vector_kwargs": {"copy": False},
      "wrappers": [*env_wrappers, check_envs],
    }
  elif limit and not is_atari(name):
    arguments["max_episode_steps"] = limit
  try:
    with process_settings.preserve():
      return gymnasium.make_vec(
        spec,
        num_envs,
        vectorization_mode=mode,
        **batching,
        **(arguments | kwargs),
      )
  except checked.EnvironmentFault as fault:
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
      index = check_envs.count if mode == "sync" else None
      fault = checked.EnvironmentFault.from_error(
        index, "its constructor", error
      )
      raise checked.EnvironmentFailedError(name, fault) from error
    raise ValueError(
      _explain_constructor_failure(name, kwargs, error)
    ) from error


def _check_arguments(name: str, kwargs: dict[str, Any]) -> None:
  """Checks that Slipway itself sets none of the constructor arguments.

  Args:
    name: gymnasium id, or 'module:Class'.
    kwargs: keyword arguments of the constructor, from the config.

  Raises:
    ValueError: Slipway sets one of the arguments.
  """
  fields = _FIELDS_OF_ARGUMENTS | (
    _FIELDS_OF_ATARI_ARGUMENTS if is_atari(name) else {}
  )
  for argument in sorted(fields.keys() & kwargs.keys()):
    raise ValueError(
      f"config.environment.kwargs.{argument} is {kwargs[argument]!r}, but a "
      "field of the config sets this argument, so no environment was made: set "
      f"config.environment.{fields[argument]} instead"
    )
  signature = inspect.signature(gymnasium.make_vec)
  reserved = signature.parameters.keys() - {"kwargs"}
  for argument in sorted(reserved & kwargs.keys()):
    raise ValueError(
      f"config.environment.kwargs.{argument} is {kwargs[argument]!r}, but this "
      "argument of gymnasium.make_vec is set by Slipway, so no environment was "
      f"made: remove {argument}"
    )


def _check_asynchronous(name: str, spec: registration.EnvSpec) -> None:
  """Checks that the environments of an id can have a thread each.

  Args:
    name: gymnasium id, or 'module:Class'.
    spec: gymnasium's spec of the id.

  Raises:
    ValueError: the id has only a vector environment, which steps one batch.
  """
  if spec.entry_point is not None and not is_atari(name):
    return
  advice = "set it to False"
  if is_atari(name):
    advice += ", and config.environment.kwargs.num_threads to use more threads"
  raise ValueError(
    "config.environment.asynchronous is True, but the environments of "
    f"{name!r} are stepped as one batch, so none can have its own thread: "
    f"{advice}"
  )


def _explain_constructor_failure(
  name: str, kwargs: dict[str, Any], error: BaseException
) -> str:
  """Returns one line that explains why an environment's constructor failed.

  Args:
    name: gymnasium id, or 'module:Class'.
    kwargs: keyword arguments that the constructor got.
    error: the error that the constructor raised.
  """
  unknown = re.search(
    r"unexpected keyword argument '(\w+)'", user_code.describe(error)
  )
  if unknown and unknown[1] in kwargs:
    return (
      f"config.environment.kwargs.{unknown[1]} is {kwargs[unknown[1]]!r}, "
      f"which the constructor of {name!r} does not take, so it cannot be made: "
      f"it takes {', '.join(_list_arguments(name))}; "
      "--config.environment.kwargs={} removes a preset's arguments"
    )
  return (
    f"config.environment.kwargs is {kwargs}, with which the constructor of "
    f"{name!r} fails, so it cannot be made: {user_code.describe(error)}"
  )


def _takes_time_limit(name: str) -> bool:
  """Returns whether an id's vector environment takes a limit of episode length.

  Args:
    name: gymnasium id, or 'module:Class'.
  """
  return is_atari(name) or "max_episode_steps" in _list_arguments(name)


def _list_arguments(name: str) -> list[str]:
  """Returns the names of the arguments of an id's constructor, sorted.

  The constructor is that of the id's vector environment, if `make` uses one.
  """
  spec = _find_spec(name)
  entry_point: Any = spec.entry_point
  if vectorization_mode(name) == "vector_entry_point":
    entry_point = spec.vector_entry_point
  if isinstance(entry_point, str):
    entry_point = registration.load_env_creator(entry_point)
  names = inspect.signature(entry_point).parameters.keys()
  return sorted(names - {"num_envs"})


def _first_line(error: Exception) -> str:
  """Returns the first line of an error's text; without a text, its type."""
  text = user_code.format_object(error, str)
  return (text or type(error).__name__).splitlines()[0]


def _spread_seed(seed: int) -> int:
  """Returns a pseudorandom seed in [0, 2^30), computed from a batch's seed.

  gymnasium seeds environment i of a batch with s + i. So batches with
  consecutive seeds s would share all but one of their environments. The result
  is below 2^30, since ale_py's seeds s + i must be below 2^31.
  """
  return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 2)
