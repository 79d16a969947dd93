"""Catalog: finds the built-in algorithms and presets in `configs/`."""

import difflib
import importlib
import pathlib
import types
from collections.abc import Mapping


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
  file = pathlib.Path(__file__).with_name(f"{name}.py")
  return file if name.isidentifier() and file.is_file() else None


def find_similar(name: str) -> str | None:
  """Returns the built-in algorithm with the most similar name.

  Args:
    name: name of an algorithm that does not exist.

  Returns:
    The algorithm's name, or None if no name is similar.
  """
  near = difflib.get_close_matches(name, algorithms(), n=1)
  return near[0] if near else None
