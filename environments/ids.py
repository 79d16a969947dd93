"""Ids: finds the environment that a config names in gymnasium's registry."""

import contextlib
import importlib
import importlib.util
import inspect
import sys
import warnings
from typing import Any

import gymnasium
import ml_collections
from gymnasium.envs import registration

from slipway.environments import unknown_names, user_code

# The vector entry point in gymnasium's registry that marks an id as Atari.
_ATARI_ENTRY_POINT = "ale_py.vector_env:AtariVectorEnv"
# Prefix of the vector entry points that are not used: they need JAX, and in
# gymnasium 1.3.0 the autoreset of one environment undoes a step of the others.
_JAX_ENTRY_POINT = "gymnasium.envs.phys2d."
# Prefixes of the ids of namespaces: the modules that register them. `find_spec`
# imports ale_py.
_PREFIXES = {
  "MinAtar": "slipway.environments.minatar:",
  "dm_control": "shimmy:",
}


def get_name_and_kwargs(
  config: ml_collections.ConfigDict,
) -> tuple[str, dict[str, Any]]:
  """Returns an environment's gymnasium id and constructor arguments.

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


def find_spec(name: str) -> registration.EnvSpec:
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
  except BaseException as error:
    advice = "correct the module, or the text before the colon"
    if module == "shimmy":  # it registers the DeepMind Control Suite
      advice = "run pip install 'shimmy[dm-control]==2.0.1' dm-control==1.0.48"
    elif module.endswith(".py"):
      advice = f"did you mean '{user_code.name_of_file(module)}:{env_id}'?"
    line = (
      f"config.environment.name is {name!r}, but importing {module or 'ale_py'}"
      f" failed ({user_code.describe(error)}), so the id is not registered: "
      f"{advice}"
    )
    raise user_code.explain(line, error) from error
  if env_id in gymnasium.registry:
    return gymnasium.registry[env_id]
  if module and callable(getattr(sys.modules[module], env_id, None)):
    return registration.EnvSpec(f"{env_id}-v0", f"{module}:{env_id}")
  raise ValueError(
    f"config.environment.name is {name!r}, which neither gymnasium nor a "
    "module knows, so no environment can be made: "
    f"{unknown_names.advise(name)}"
  )


def find_reward_threshold(config: ml_collections.ConfigDict) -> float | None:
  """Returns the return at which gymnasium calls an environment solved.

  Returns:
    The `reward_threshold` of the id's registration, or None if it has none.

  Raises:
    Exception: as `get_name_and_kwargs` and `find_spec`.
  """
  threshold = find_spec(get_name_and_kwargs(config)[0]).reward_threshold
  return None if threshold is None else float(threshold)


def is_atari(spec: registration.EnvSpec) -> bool:
  """Returns whether an id's vector environment is `ale_py.AtariVectorEnv`."""
  return spec.vector_entry_point == _ATARI_ENTRY_POINT


def get_vectorization_mode(spec: registration.EnvSpec) -> str:
  """Returns gymnasium's vectorization mode for an id.

  Returns:
    'sync', a Python loop over the environments, or 'vector_entry_point', the
    id's own vector environment.
  """
  entry_point = spec.vector_entry_point
  if (
    entry_point is None
    or spec.additional_wrappers
    or str(entry_point).startswith(_JAX_ENTRY_POINT)
  ):
    return "sync"
  return "vector_entry_point"


def has_single(spec: registration.EnvSpec) -> bool:
  """Returns whether an id also makes single environments, not only batches."""
  return spec.entry_point is not None and not is_atari(spec)


def list_arguments(spec: registration.EnvSpec) -> list[str]:
  """Returns the names of the arguments of an id's constructor, sorted.

  The constructor is that of the id's vector environment, where
  `get_vectorization_mode` returns 'vector_entry_point'.
  """
  entry_point: Any = spec.entry_point
  if get_vectorization_mode(spec) == "vector_entry_point":
    entry_point = spec.vector_entry_point
  if isinstance(entry_point, str):
    entry_point = registration.load_env_creator(entry_point)
  names = inspect.signature(entry_point).parameters.keys()
  return sorted(names - {"num_envs"})


def list_registered() -> dict[str, list[str]]:
  """Returns the newest versions of the registered ids, by namespace.

  The package that an environment needs may be missing.
  """
  for prefix in ("ale_py", *_PREFIXES.values()):
    with contextlib.suppress(Exception), warnings.catch_warnings():
      warnings.simplefilter("ignore")
      importlib.import_module(prefix.rstrip(":"))
  groups: dict[str, list[str]] = {}
  for spec in gymnasium.registry.values():
    newest = registration.find_highest_version(spec.namespace, spec.name)
    # ale_py and shimmy register further ids without a namespace.
    is_own = str(spec.entry_point).startswith("gymnasium.")
    if spec.version == newest and (spec.namespace or is_own):
      name = _PREFIXES.get(spec.namespace or "", "") + spec.id
      groups.setdefault(spec.namespace or "gymnasium", []).append(name)
  return {group: sorted(groups[group]) for group in sorted(groups)}
