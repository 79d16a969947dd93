"""User modules: finds the user's own Python modules that a config names.

The modules' folders are recorded in the run's folder, so that the run can be
resumed and evaluated from any working directory. On a cluster, the modules are
sent to all machines.
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

# Name of the file in a run's folder with the folders of the user's modules.
_FILE = "python_path.json"
# Matches a config value 'package.module:Name'; group 1 is the package.
_NAME = re.compile(r"([A-Za-z_]\w*)[\w.]*:[A-Za-z_][\w./-]*")
# Names of the folders of installed packages, which are not user modules.
_INSTALLED = ("site-packages", "dist-packages")


def find_files(config: ml_collections.ConfigDict) -> list[pathlib.Path]:
  """Returns the paths of the user's modules that a config names.

  A config names a module by a value 'module:Name'. The path is a .py file or a
  package's folder. Installed packages and names that can't be imported are
  skipped.

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
  """Writes the folders of a config's user modules to a run's folder.

  Args:
    folder: the run's folder.
    config: the whole config.
  """
  paths = list(dict.fromkeys(str(path.parent) for path in find_files(config)))
  if paths:
    (folder.path / _FILE).write_text(json.dumps(paths) + "\n", "utf-8")


def add_to_path(folder: run_folder.RunFolder) -> None:
  """Appends the folders of a run's user modules to `sys.path`.

  A missing or damaged file of `write` is ignored.
  """
  try:
    paths = json.loads((folder.path / _FILE).read_text("utf-8"))
  except (OSError, ValueError):
    return
  if isinstance(paths, list):
    sys.path += [p for p in paths if isinstance(p, str) and p not in sys.path]


def _module_names(config: ml_collections.ConfigDict) -> Iterator[str]:
  """Yields the top-level package of each 'package.module:Name' in a config."""
  for value in fields.flatten(config).values():
    for text in value if isinstance(value, tuple) else (value,):
      if isinstance(text, str) and (match := _NAME.fullmatch(text)):
        yield match[1]
