"""User modules: finds the user's own modules that a config names.

Their folders are recorded in the run's folder, so that the run can be resumed
and evaluated from any working directory. On a cluster, they are sent to all
machines.
"""

import contextlib
import importlib.util
import json
import pathlib
import re
import sys
from collections.abc import Iterator

import ml_collections

from slipway.configs import fields
from slipway.launch.runs import run_folder

_FILE = "python_path.json"
# A config value 'module:Name', whose group is the module's top-level name.
_NAME = re.compile(r"([A-Za-z_]\w*)[\w.]*:[A-Za-z_][\w./-]*")
_INSTALLED = ("site-packages", "dist-packages")


def find_files(config: ml_collections.ConfigDict) -> list[pathlib.Path]:
  """Returns the files and packages that a config names as 'module:Name'.

  The launcher sends them to all machines of a cluster. Installed packages and
  names that can't be imported are skipped.

  Args:
    config: the whole config.
  """
  found = {}
  for name in _module_names(config):
    with contextlib.suppress(ImportError, ValueError):
      spec = importlib.util.find_spec(name)
      if spec is None or name == "slipway":
        continue
      paths = spec.submodule_search_locations or [spec.origin]
      path = pathlib.Path(str(next(iter(paths)))).resolve()
      if path.exists() and not set(_INSTALLED) & set(path.parts):
        found[path] = None
  return list(found)


def write(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict
) -> None:
  """Records the folders of a config's user modules in the run's folder."""
  paths = list(dict.fromkeys(str(path.parent) for path in find_files(config)))
  if paths:
    (folder.path / _FILE).write_text(json.dumps(paths) + "\n", "utf-8")


def add_to_path(folder: run_folder.RunFolder) -> None:
  """Appends the folders of a run's user modules to Python's path."""
  try:
    paths = json.loads((folder.path / _FILE).read_text("utf-8"))
  except (OSError, ValueError):
    return
  if isinstance(paths, list):
    sys.path += [p for p in paths if isinstance(p, str) and p not in sys.path]


def _module_names(config: ml_collections.ConfigDict) -> Iterator[str]:
  """Yields the top-level names of all modules that a config names."""
  for value in fields.flatten(config).values():
    for text in value if isinstance(value, tuple) else (value,):
      if isinstance(text, str) and (match := _NAME.fullmatch(text)):
        yield match[1]
