"""Catalog: the algorithms there are, by the names of their configs."""

import difflib
import importlib
import pathlib
import types
from collections.abc import Mapping

from configs import dqn

PRESETS = dqn.PRESETS


def algorithms() -> Mapping[str, types.ModuleType]:
  """The configs' modules by name: those of this folder with a `get_config`."""
  found = {}
  for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
    module = importlib.import_module(f"configs.{path.stem}")
    if hasattr(module, "get_config"):
      found[path.stem] = module
  return found


def nearest(name: str) -> str:
  """The algorithm whose name is most like `name`."""
  return difflib.get_close_matches(name, algorithms(), n=1, cutoff=0.0)[0]
