"""Catalog: the algorithms and their presets, by the names of their configs."""

import difflib
import importlib
import pathlib
import types
from collections.abc import Mapping


def algorithms() -> Mapping[str, types.ModuleType]:
  """Returns the config modules by name: those here that have `get_config`."""
  found = {}
  for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    module = importlib.import_module(f"configs.{path.stem}")
    if hasattr(module, "get_config"):
      found[path.stem] = module
  return found


def presets() -> dict[str, list[str]]:
  """Returns the names of all presets, with the algorithms that have each."""
  found: dict[str, list[str]] = {}
  for algorithm, module in algorithms().items():
    for preset in module.PRESETS:
      found.setdefault(preset, []).append(algorithm)
  return found


def nearest(name: str) -> str:
  """Returns the algorithm whose name is most like `name`."""
  return difflib.get_close_matches(name, algorithms(), n=1, cutoff=0.0)[0]
