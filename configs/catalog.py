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
    module = importlib.import_module(f"slipway.configs.{path.stem}")
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


def path(name: str) -> pathlib.Path | None:
  """Returns the file of a built-in config; None if there is none."""
  file = pathlib.Path(__file__).with_name(f"{name}.py")
  return file if name.isidentifier() and file.is_file() else None


def nearest(name: str) -> str | None:
  """Returns the algorithm whose name is close to `name`; None if none is."""
  near = difflib.get_close_matches(name, algorithms(), n=1)
  return near[0] if near else None
