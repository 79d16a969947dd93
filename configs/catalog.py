"""Catalog: the built-in algorithms and presets, found in this folder."""

import difflib
import importlib
import pathlib
import types
from collections.abc import Mapping


def algorithms() -> Mapping[str, types.ModuleType]:
  """Returns the config module of each built-in algorithm, by its name.

  A module of this folder is an algorithm's if it defines `get_config`.
  """
  found = {}
  for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    module = importlib.import_module(f"slipway.configs.{path.stem}")
    if hasattr(module, "get_config"):
      found[path.stem] = module
  return found


def presets() -> dict[str, list[str]]:
  """Returns the names of the algorithms that have a preset, by its name."""
  found: dict[str, list[str]] = {}
  for algorithm, module in algorithms().items():
    for preset in module.PRESETS:
      found.setdefault(preset, []).append(algorithm)
  return found


def path(name: str) -> pathlib.Path | None:
  """Returns the config file of an algorithm; None if it is not built in."""
  file = pathlib.Path(__file__).with_name(f"{name}.py")
  return file if name.isidentifier() and file.is_file() else None


def nearest(name: str) -> str | None:
  """Returns the algorithm most similar in name; None if none is similar."""
  near = difflib.get_close_matches(name, algorithms(), n=1)
  return near[0] if near else None
