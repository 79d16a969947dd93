"""Catalog: finds the built-in algorithms and presets in `configs/`."""

import difflib
import importlib
import pathlib
import re
import types
from collections.abc import Mapping

from slipway.configs import presets as presets_lib

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


def find_config_file(name: str) -> pathlib.Path | None:
  """Returns the path of `configs/NAME.py`, or None if there is no such file.

  Args:
    name: any text, such as the name of an algorithm.
  """
  if not name.isidentifier():
    return None
  file = pathlib.Path(__file__).with_name(f"{name}.py")
  return file if file.is_file() else None


def find_similar(name: str) -> str | None:
  """Returns the built-in config with the most similar name.

  Args:
    name: name of an algorithm that does not exist, also with a preset and in
      another notation, such as 'DQN-CartPole'.

  Returns:
    'ALGORITHM' or 'ALGORITHM:PRESET', or None if no algorithm is similar.
  """
  known = algorithms()
  words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
  beginnings = [
    words[:end]
    for end in range(len(words), 0, -1)
    if words[end : end + 1] in ("", "_")
  ]
  # An exact beginning comes first: 'double_dqn_pong' is not 'dqn'.
  for find in (lambda x: x if x in known else _ALIASES.get(x), _find_close):
    for beginning in beginnings:
      algorithm = find(beginning)
      if algorithm is not None:
        task = words.removeprefix(beginning).strip("_")
        preset = presets_lib.find_similar(task, known[algorithm].PRESETS)
        return f"{algorithm}:{preset}" if preset else algorithm
  return None


def _find_close(word: str) -> str | None:
  """Returns the algorithm whose name is most similar to a word, or None."""
  near = difflib.get_close_matches(word, algorithms(), n=1, cutoff=0.65)
  return near[0] if near else None
