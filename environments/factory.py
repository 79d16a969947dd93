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
import inspect
import re
from collections.abc import Sequence
from typing import Any

import gymnasium
import ml_collections
import numpy as np
from absl import logging
from gymnasium.envs import registration

from slipway.environments import (
  asynchronous,
  checked,
  context,
  external,
  ids,
  process_settings,
  specs,
  user_code,
  vector,
  wrappers,
)

Environment = gymnasium.Env  # for modules that don't import gymnasium
# Constructor arguments that `environment.kwargs` must not contain, and the
# config field of `environment` that sets each of them.
_FIELDS_OF_ARGUMENTS = {"max_episode_steps": "time_limit"}
# The same for the additional arguments of `ale_py.AtariVectorEnv`.
_FIELDS_OF_ATARI_ARGUMENTS = {
  "max_num_frames_per_episode": "time_limit",
  "reward_clipping": "reward_clip",
}
# The default of AtariVectorEnv's argument `frameskip`, in frames per step.
_ATARI_FRAME_SKIP = 4


def make(
  config: ml_collections.ConfigDict,
  num_envs: int,
  seed: int,
  info_names: Sequence[str] = (),
  role: str = "",
  worker: int = 0,
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
      trajectories; environments of batches with different seeds differ, with
      a high probability.
    info_names: Names of the numbers that `VectorEnvironment.info` has.
    role: Role of this process, for `context.EnvironmentContext`.
    worker: The same for the index of the worker.

  Returns:
    The environments, not yet reset.

  Raises:
    ValueError: An argument is invalid, or not supported.
    user_code.UserCodeError: The user's own code failed: the module that
      registers the id, the constructor or a wrapper.
  """
  name, kwargs = ids.get_name_and_kwargs(config)
  spec = ids.find_spec(name)
  masked = bool(config.get("action_mask", False))
  check_envs = checked.BatchChecker(masked, info_names)
  with context.constructing(role, worker, lambda: check_envs.count):
    envs = _construct(config, spec, name, kwargs, num_envs, check_envs)
  try:
    return vector.VectorEnvironment(
      envs,
      name,
      _spread_seed(seed),
      copy_observations=not ids.is_atari(spec),
      masked=masked,
      transform_rewards=wrappers.make_reward_transform(config),
      info_names=info_names,
      num_envs=num_envs,
    )
  except ValueError:
    envs.close()
    raise


def make_spec(config: ml_collections.ConfigDict) -> specs.EnvironmentSpec:
  """Returns the spec of a config's environments.

  The function makes one environment and steps it once, so that its errors
  appear before the run starts, and warns of action masks that are not read.
  With wrappers, it repeats that twice, and warns of those that remember it.
  External environments are not stepped.

  Raises:
    Exception: as `make`, and as the environment's `reset`, `step` and `close`.
  """
  environment = make(config, num_envs=1, seed=0)
  if not config.get("external", False):
    step, random = environment.reset(), np.random.default_rng(0)
    if any(env.ignores_mask for env in environment.environments):
      logging.warning(
        "environment %s returns info['action_mask'], which is not read, so "
        "actors also choose illegal actions: set "
        "--config.environment.action_mask=True",
        config.name,
      )
    actions = environment.sample_actions(step.observation, random)
    environment.step(actions)
    if config.get("wrappers", ()):
      _warn_of_lasting_state(environment, actions)
  environment.close()
  return environment.spec


def make_single(
  config: ml_collections.ConfigDict, more_kwargs: dict[str, Any]
) -> gymnasium.Env:
  """Makes one environment of a config, with its wrappers, for a user's loop.

  Args:
    more_kwargs: keyword arguments of the constructor besides the config's.

  Raises:
    ValueError: it is stepped in batches only, as Atari games are, or can't be
      made.
    user_code.UserCodeError: the user's own code failed.
  """
  name, kwargs = ids.get_name_and_kwargs(config)
  spec, limit = ids.find_spec(name), config.get("time_limit", 0)
  if not ids.has_single(spec):
    raise ValueError(
      f"config.environment.name is {name!r}, which is stepped in batches only, "
      "so there is no single environment: make one with gymnasium.make_vec"
    )
  kwargs |= more_kwargs
  if limit:
    kwargs["max_episode_steps"] = -1  # no limit of its own
  wrapped = wrappers.make_wrappers(config)
  try:
    env = gymnasium.make(spec, disable_env_checker=True, **kwargs)
    if limit:
      wrapped.append(wrappers.make_time_limit(limit))
    for wrap in wrapped:
      env = wrap(env)
    return env
  except wrappers.WrapperError:
    raise
  except BaseException as error:
    raise _explain_failure(spec, name, kwargs, error) from error


def make_external(
  config: ml_collections.ConfigDict,
) -> tuple[vector.VectorEnvironment, external.Exchange]:
  """Makes an environment that an external loop steps, and their exchange.

  The environment that the config names, with its wrappers, only defines the
  spaces; it is never stepped.

  Returns:
    The environment, which a worker steps, and the exchange, which the loop
    calls.

  Raises:
    Exception: as `make`.
  """
  name, kwargs = ids.get_name_and_kwargs(config)
  spec = ids.find_spec(name)
  template = _construct(config, spec, name, kwargs, 1, checked.BatchChecker())
  template.close()
  spaces = template.single_observation_space, template.single_action_space
  masked = bool(config.get("action_mask", False))
  exchange = external.Exchange(
    *spaces, bool(config.get("wrappers", ())), masked
  )
  check = checked.BatchChecker(masked)
  envs = gymnasium.vector.SyncVectorEnv(
    [lambda: check(external.ExternalEnvironment(*spaces, exchange))], copy=False
  )
  environment = vector.VectorEnvironment(
    envs,
    name,
    seed=0,
    masked=masked,
    transform_rewards=wrappers.make_reward_transform(config),
  )
  return environment, exchange


def make_gymnasium_spec(
  config: ml_collections.ConfigDict,
) -> registration.EnvSpec | None:
  """Returns the gymnasium spec of a config's environment, for recordings.

  `gymnasium.make` makes a single environment from such a spec.

  Returns:
    The spec, or None if the spec can't be written to a file, if the kwargs are
    those of a vector environment (`ALE/*`), or if the environment has wrappers.

  Raises:
    ValueError: as `make`.
  """
  name, kwargs = ids.get_name_and_kwargs(config)
  spec = copy.deepcopy(ids.find_spec(name))
  if ids.is_atari(spec) or wrappers.make_wrappers(config):
    return None
  spec.kwargs.update(kwargs)
  spec.max_episode_steps = config.get("time_limit", 0) or spec.max_episode_steps
  try:
    spec.to_json()
  except (TypeError, ValueError):
    return None
  return spec


def _construct(
  config: ml_collections.ConfigDict,
  spec: registration.EnvSpec,
  name: str,
  kwargs: dict[str, Any],
  num_envs: int,
  check_envs: checked.BatchChecker,
) -> gymnasium.vector.VectorEnv:
  atari = ids.is_atari(spec)
  _check_arguments(kwargs, atari)
  threaded = config.get("asynchronous", False)
  if threaded:
    _check_asynchronous(name, spec)
  env_wrappers, limit = [], config.get("time_limit", 0)
  arguments: dict[str, Any] = {}
  batching: dict[str, Any] = {}
  if atari:
    wrappers.check_atari(config)
    # Each worker is a process for one core, so it needs one thread only.
    arguments = {"num_threads": 1, "reward_clipping": False}
    if limit:
      frames = limit * kwargs.get("frameskip", _ATARI_FRAME_SKIP)
      arguments["max_num_frames_per_episode"] = frames
  else:
    env_wrappers = wrappers.make_wrappers(config)
  mode = ids.get_vectorization_mode(spec)
  if env_wrappers or threaded:
    mode = "sync"
  elif limit and mode != "sync" and not atari:
    if "max_episode_steps" in ids.list_arguments(spec):
      arguments["max_episode_steps"] = limit
    else:
      mode = "sync"
  if mode == "sync":
    if spec.entry_point is None:
      raise ValueError(
        f"config.environment.name is {name!r}, which is stepped in batches "
        "only, so wrappers and fields of the config that add one, such as "
        "environment.time_limit, can't be applied: remove them"
      )
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
  try:
    with process_settings.preserve():
      return gymnasium.make_vec(
        spec,
        num_envs,
        vectorization_mode=mode,
        **batching,
        **(arguments | kwargs),
      )
  except wrappers.WrapperError:
    raise
  except BaseException as error:
    index = check_envs.count if mode == "sync" else None
    raise _explain_failure(spec, name, kwargs, error, index) from error


def _explain_failure(
  spec: registration.EnvSpec,
  name: str,
  kwargs: dict[str, Any],
  error: BaseException,
  index: int | None = None,
) -> Exception:
  """Returns the error to raise when an environment could not be made."""
  user_code.raise_interrupt(error)
  if isinstance(error, checked.EnvironmentFault):
    return checked.EnvironmentFailedError(name, error)
  if isinstance(error, ImportError | gymnasium.error.DependencyNotInstalled):
    return ValueError(
      f"config.environment.name is {name!r}, which needs a package that is not "
      f"installed here, so it cannot be made: {user_code.describe(error)}"
    )
  if user_code.is_in_user_code(error):
    call = "its constructor"
    fault = checked.EnvironmentFault.from_error(index, call, error)
    return checked.EnvironmentFailedError(name, fault)
  return ValueError(_explain_constructor_failure(spec, name, kwargs, error))


def _warn_of_lasting_state(
  environment: vector.VectorEnvironment, actions: np.ndarray
) -> None:
  """Logs a warning about wrappers with a state that outlasts episodes."""
  states: list[dict[str, bytes | None]] = []
  try:
    for env in environment.environments * 2:
      env.reset(seed=env.seed)
      states.append(wrappers.save_states(env))
      environment.step(actions)
  except (checked.EnvironmentFault, checked.EnvironmentFailedError):
    return  # it is not deterministic, so states can't be compared
  for name, state in states[0].items():
    if state is None:
      logging.warning(
        "config.environment.wrappers has %s, which can't be pickled, so it is "
        "not known whether its state outlasts episodes: such a state is in no "
        "snapshot, and evaluations and loaded policies begin without it",
        name,
      )
    elif states[1].get(name) != state:
      logging.warning(
        "config.environment.wrappers has %s, whose state outlasts episodes: "
        "each process has its own, and evaluations, resumed runs and loaded "
        "policies begin without it; %s",
        name,
        wrappers.advise_on_state(name),
      )


def _check_arguments(kwargs: dict[str, Any], atari: bool) -> None:
  if atari and kwargs.get("life_loss_info"):
    raise ValueError(
      "config.environment.kwargs.life_loss_info is True, with which ale_py "
      "ends episodes at lost lives but continues the game, so steps would be "
      "lost, and returns be those of single lives: remove life_loss_info"
    )
  fields = _FIELDS_OF_ARGUMENTS | (_FIELDS_OF_ATARI_ARGUMENTS if atari else {})
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
  """Checks that the environments of an id can have a thread each."""
  if ids.has_single(spec):
    return
  advice = "set it to False"
  if ids.is_atari(spec):
    advice += ", and config.environment.kwargs.num_threads to use more threads"
  raise ValueError(
    "config.environment.asynchronous is True, but the environments of "
    f"{name!r} are stepped as one batch, so none can have its own thread: "
    f"{advice}"
  )


def _explain_constructor_failure(
  spec: registration.EnvSpec,
  name: str,
  kwargs: dict[str, Any],
  error: BaseException,
) -> str:
  text = user_code.describe(error)
  unknown = re.search(r"unexpected keyword argument '(\w+)'", text)
  if unknown and unknown[1] in kwargs:
    return (
      f"config.environment.kwargs.{unknown[1]} is {kwargs[unknown[1]]!r}, "
      f"which the constructor of {name!r} does not take, so it cannot be made: "
      f"it takes {', '.join(ids.list_arguments(spec))}; "
      "--config.environment.kwargs={} removes a preset's arguments"
    )
  named = f"config.environment.name is {name!r}"
  if actual := re.search(r"actual class: <class '(.*?)'>", text):
    return (
      f"{named}, which makes {actual[1]}, no gymnasium.Env, so it can't be "
      "stepped: derive the class from gymnasium.Env, or wrap an environment of "
      "the package gym in shimmy.GymV21CompatibilityV0(env=...)"
    )
  if space := re.search(r"no attribute '((action|observation)_space)'", text):
    return (
      f"{named}, which has no {space[1]}, so no network can be made for it: "
      f"set self.{space[1]} to a gymnasium space in __init__"
    )
  if missing := re.search(r"missing \d+ required .*?: '(\w+)'", text):
    return (
      f"{named}, whose constructor needs the argument {missing[1]}, so it "
      f"cannot be made: give --config.environment.kwargs.{missing[1]}=VALUE"
    )
  if not kwargs:
    return f"{named}, whose constructor fails, so it cannot be made: {text}"
  return (
    f"config.environment.kwargs is {kwargs}, with which the constructor of "
    f"{name!r} fails, so it cannot be made: {text}"
  )


def _spread_seed(seed: int) -> int:
  """Returns a pseudorandom seed in [0, 2^30), computed from a batch's seed."""
  # gymnasium seeds environment i of a batch with s + i, so that batches with
  # consecutive seeds s would share environments. ale_py needs s + i < 2^31.
  return int(np.random.SeedSequence(seed).generate_state(1)[0] >> 2)
