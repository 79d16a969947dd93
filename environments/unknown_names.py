"""Unknown names: advises on environment names that name no environment."""

import difflib
import importlib.util
import re
import sys
import types

import gymnasium

from slipway.environments import user_code

# The lowest similarity, in [0, 1], of two names without versions at which one
# is suggested for the other. 'GridWorld' and 'Earthworld' have 0.63.
_MIN_SIMILARITY = 0.75
_VERSION = re.compile(r"(-v(\d+))+$")
_MAX_LISTED = 8  # classes of a module in an error message


def advise(name: str) -> str:
  """Returns the advice that ends an error message about an unknown name.

  Args:
    name: value of config.environment.name, in which a module before ':' can
      be imported.
  """
  module, _, env_id = name.rpartition(":")
  if module:
    return _advise_on_module(module, env_id)
  near = _find_nearest_id(env_id) or _find_module(env_id)
  advice = f"did you mean {near!r}? " if near else ""
  registered = "Name-v0" if near or not _VERSION.search(env_id) else env_id
  return (
    f"{advice}your own is written 'module:Class', or 'module:{registered}' if "
    "the module registers it"
  )


def advise_on_import(module: str, env_id: str) -> str:
  """Returns the advice about a module before ':' that can't be imported.

  Args:
    module: the text before the colon, such as 'folder/file.py'.
    env_id: the text after the colon.
  """
  if module == "shimmy":  # it registers the DeepMind Control Suite
    return "run pip install 'shimmy[dm-control]==2.0.1' dm-control==1.0.48"
  if module.endswith(".py"):
    return f"did you mean '{user_code.name_of_file(module)}:{env_id}'?"
  return "correct the module, or the text before the colon"


def _advise_on_module(module: str, env_id: str) -> str:
  """Returns the advice about a name that is not in a module.

  Args:
    module: name of an imported module.
    env_id: text after the colon.
  """
  imported = sys.modules[module]
  if hasattr(imported, env_id):
    return (
      f"{env_id} is {type(getattr(imported, env_id)).__name__} data of module "
      f"{module}: name a class, or a function that returns an environment"
    )
  classes = _list_environments(imported)
  near = _find_similar(env_id, classes) or _find_nearest_id(env_id)
  if near is not None:
    return f"did you mean '{module}:{near}'?"
  shown = ", ".join(f"'{module}:{x}'" for x in classes[:_MAX_LISTED])
  return (
    f"module {module} has {shown}"
    if shown
    else f"name a gymnasium.Env class of module {module}, or an id that it "
    "registers"
  )


def _list_environments(module: types.ModuleType) -> list[str]:
  """Returns the names of a module's own environment classes and functions."""
  return [
    name
    for name, value in vars(module).items()
    if not name.startswith("_")
    and getattr(value, "__module__", None) == module.__name__
    and (
      issubclass(value, gymnasium.Env)
      if isinstance(value, type)
      else isinstance(value, types.FunctionType)
    )
  ]


def _find_module(name: str) -> str | None:
  """Returns 'module:Class' for 'module.Class', or None if there is no module.

  Args:
    name: a name without a colon.
  """
  module, _, attribute = name.rpartition(".")
  try:
    is_module = bool(module) and importlib.util.find_spec(module) is not None
  except (ImportError, ValueError, AttributeError):
    return None  # a text that can't be a module's name
  return f"{module}:{attribute}" if is_module and attribute != "py" else None


def _find_nearest_id(env_id: str) -> str | None:
  """Returns the registered id most similar to an unknown id, or None.

  Case, namespaces and versions matter only between equally similar names.

  Args:
    env_id: unknown gymnasium id.
  """
  stem = _remove_version(env_id)
  version = _VERSION.search(env_id)

  def similarity(known: str) -> tuple[float, bool, int, float]:
    """Returns a registered id's sort key; its first number is in [0, 1]."""
    its_version = gymnasium.registry[known].version or 0
    is_same_version = version is not None and int(version[2]) == its_version
    whole = difflib.SequenceMatcher(None, env_id, known).ratio()
    its_stem = _remove_version(known)
    return _similarity(stem, its_stem), is_same_version, its_version, whole

  nearest = max(gymnasium.registry, key=similarity)
  return nearest if similarity(nearest)[0] >= _MIN_SIMILARITY else None


def _find_similar(word: str, known: list[str]) -> str | None:
  """Returns the most similar of several words, or None."""
  stem = _remove_version(word)
  nearest = max(known, key=lambda x: _similarity(stem, x), default=None)
  if nearest is None or _similarity(stem, nearest) < _MIN_SIMILARITY:
    return None
  return nearest


def _remove_version(env_id: str) -> str:
  """Returns an id without its namespace and version."""
  return _VERSION.sub("", env_id).rpartition("/")[2]


def _similarity(a: str, b: str) -> float:
  """Returns the similarity of two words in [0, 1], whatever their case."""
  return difflib.SequenceMatcher(None, a.lower(), b.lower()).ratio()
