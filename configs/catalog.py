"""Catalog: finds the built-in algorithms and presets in `configs/`."""

import importlib
import pathlib
import re
import types
import typing
from collections.abc import Mapping

from slipway.configs import names

# Algorithms by further names that are in use.
_ALIASES = {
  "a3c": "a2c",
  "apex": "apex_dqn",
  "behavior_cloning": "bc",
  "behaviour_cloning": "bc",
  "ddqn": "double_dqn",
  "mdqn": "munchausen_dqn",
  "per": "prioritized_dqn",
  "pg": "reinforce",
  "vpg": "reinforce",
}


def algorithms() -> Mapping[str, types.ModuleType]:
  """Returns the config module of each built-in algorithm, by algorithm name.

  The modules of `configs/` that define `get_config` are those of algorithms.
  """
  found = {}
  for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    module = importlib.import_module(f"slipway.configs.{path.stem}")
    if hasattr(module, "get_config"):
      found[path.stem] = module
  return found


def presets() -> dict[str, list[str]]:
  """Returns a dict from each preset's name to the algorithms that have it."""
  found: dict[str, list[str]] = {}
  for algorithm, module in algorithms().items():
    for preset in module.PRESETS:
      found.setdefault(preset, []).append(algorithm)
  return found


def list_values(agent: str, name: str) -> list[typing.Any]:
  """Returns the values that presets of `config.agent` set for a field."""
  tables = []
  for recipe in (module.RECIPE for module in algorithms().values()):
    if recipe.get_config().agent == agent:
      for part in filter(None, (recipe, recipe.family)):
        tables += [part.paper, *part.tasks.values()]
  return [table[name] for table in tables if name in table]


def find_config_file(name: str) -> pathlib.Path | None:
  """Returns the path of `configs/NAME.py`, or None if there is no such file."""
  if not name.isidentifier():  # such as a path
    return None
  file = pathlib.Path(__file__).with_name(f"{name}.py")
  return file if file.is_file() else None


def find_similar(name: str) -> str | None:
  """Returns the most similar 'ALGORITHM' or 'ALGORITHM:PRESET', or None.

  Args:
    name: name of an algorithm that does not exist, also with a preset and in
      another notation, such as 'DQN-CartPole'.
  """
  known = algorithms()
  words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").split("_")
  beginnings = ["_".join(words[:i]) for i in range(len(words), 0, -1)]
  # An exact beginning comes first: 'double_dqn_pong' is not 'dqn'.
  for find in (
    lambda x: x if x in known else _ALIASES.get(x),
    lambda x: names.find_word(x, known, 0.65),
  ):
    for count, beginning in zip(
      range(len(words), 0, -1), beginnings, strict=True
    ):
      if algorithm := find(beginning):
        task = "_".join(words[count:])
        preset = names.find_preset(task, known[algorithm].PRESETS)
        return f"{algorithm}:{preset}" if preset else algorithm
  return None
