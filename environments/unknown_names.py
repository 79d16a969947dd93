"""Unknown names: advises on environment names that name no environment."""

import importlib.util
import re
import sys
import types
import typing

import gymnasium

from slipway.configs import names

# The lowest similarity, in [0, 1], of two names without versions at which one
# is suggested for the other. 'GridWorld' and 'Earthworld' have 0.63.
_MIN_SIMILARITY = 0.75
_VERSION = re.compile(r"(-v\d+)+$")
_MAX_LISTED = 8  # classes of a module in an error message


def advise(name: str) -> str:
  """Returns the advice that ends an error message about an unknown name.

  Args:
    name: value of config.environment.name, in which a module before ':' can
      be imported.
  """
  if not name:
    return (
      "name one, or give an algorithm that learns from recorded episodes alone"
      ", such as --config=iql, and --config.dataset.path=FOLDER"
    )
  module, _, env_id = name.rpartition(":")
  if module:
    return _advise_on_module(sys.modules[module], env_id)
  near = _find_nearest_id(env_id) or _find_module(env_id)
  advice = f"did you mean {near!r}? " if near else ""
  registered = "Name-v0" if near or not _VERSION.search(env_id) else env_id
  return (
    f"{advice}your own is written 'module:Class', or 'module:{registered}' if "
    "the module registers it"
  )


def _advise_on_module(module: types.ModuleType, env_id: str) -> str:
  """Returns the advice about a name after ':' that is not in a module."""
  found = getattr(module, env_id, None)
  if found is not None:
    return (
      f"{env_id} is {type(found).__name__} data of module {module.__name__}: "
      "name a class, or a function that returns an environment"
    )
  known = [
    key
    for key, value in vars(module).items()
    if not key.startswith("_") and _may_make_environment(module, value)
  ]
  stem = _VERSION.sub("", env_id)
  near = names.find_word(stem, known, _MIN_SIMILARITY)
  near = near or _find_nearest_id(env_id)
  if near is not None:
    return f"did you mean '{module.__name__}:{near}'?"
  if known:
    shown = (f"'{module.__name__}:{x}'" for x in known[:_MAX_LISTED])
    return f"module {module.__name__} has {', '.join(shown)}"
  return (
    f"name a gymnasium.Env class of module {module.__name__}, or an id that it "
    "registers"
  )


def _may_make_environment(module: types.ModuleType, value: typing.Any) -> bool:
  if getattr(value, "__module__", None) != module.__name__:
    return False
  if isinstance(value, type):
    return issubclass(value, gymnasium.Env)
  return isinstance(value, types.FunctionType)


def _find_module(name: str) -> str | None:
  """Returns 'module:Class' for 'module.Class', or None without a module."""
  module, _, attribute = name.rpartition(".")
  try:
    is_module = bool(module) and importlib.util.find_spec(module) is not None
  except (ImportError, ValueError, AttributeError):
    return None  # a text that can't be a module's name
  return f"{module}:{attribute}" if is_module and attribute != "py" else None


def _find_nearest_id(env_id: str) -> str | None:
  """Returns the newest of the ids most similar to an unknown one, or None."""

  def get_stem(name: str) -> str:
    return _VERSION.sub("", name).rpartition("/")[2].lower()

  def get_group(name: str) -> str:
    return name.rpartition(":")[2].rpartition("/")[0]

  def get_rank(name: str) -> tuple[bool, int, bool]:
    is_near = get_group(env_id) in ("", get_group(name))
    return is_near, gymnasium.registry[name].version or 0, "/" not in name

  newest = {get_stem(x): x for x in sorted(gymnasium.registry, key=get_rank)}
  near = names.find_word(get_stem(env_id), newest, _MIN_SIMILARITY)
  return newest[near] if near else None
