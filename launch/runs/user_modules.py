"""User modules: finds the user's own Python modules that a config names.

The modules' folders are recorded in the run's folder, so that the run can be
resumed and evaluated from any working directory. On a cluster, the modules are
sent to all machines.
"""

import contextlib
import functools
import importlib.util
import json
import os
import pathlib
import re
import sys
from collections.abc import Iterator

import ml_collections
import msgspec
from absl import logging

from slipway.configs import fields
from slipway.environments import user_code
from slipway.launch.runs import run_folder

# Name of the file in a run's folder with the folders of the user's modules.
_FILE = "python_path.json"
# Matches a config value 'package.module:Name'; group 1 is the package.
_NAME = re.compile(r"([A-Za-z_]\w*)[\w.]*:[A-Za-z_][\w./-]*")


def find_files(config: ml_collections.ConfigDict) -> list[pathlib.Path]:
  """Returns the paths of the user's modules that a config names.

  A config names a module by a value 'module:Name'. The path is a .py file or a
  package's folder. Installed packages and names that can't be imported are
  skipped.
  """
  found = {}
  for name in _module_names(config):
    with contextlib.suppress(ImportError, ValueError):
      spec = importlib.util.find_spec(name)
      if spec is None or name == "slipway":
        continue
      paths = spec.submodule_search_locations or [spec.origin]
      path = pathlib.Path(str(next(iter(paths)))).resolve()
      if path.exists() and not user_code.is_installed(path):
        found[path] = None
  return list(found)


def write(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict
) -> None:
  """Writes the folders of a config's user modules to a run's folder."""
  paths = list(dict.fromkeys(str(path.parent) for path in find_files(config)))
  if paths:
    (folder.path / _FILE).write_text(json.dumps(paths) + "\n", "utf-8")


def prefer_recorded(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict
) -> None:
  """Puts the folders of a run's user modules first in `sys.path`.

  So the run finds its own modules, also where the working folder has others of
  the same name. A recorded folder that no longer exists is skipped with a
  warning: its modules are then found like those of a new run. A missing or
  damaged file of `write` is ignored, and so is that of a config that names no
  module.

  Args:
    config: the run's config, perhaps with invalid fields.
  """
  if not any(_module_names(config)):
    return
  try:
    content = (folder.path / _FILE).read_bytes()
    recorded = msgspec.json.decode(content, type=list[str])
  except (OSError, ValueError):
    return
  paths = [path for path in recorded if os.path.isdir(path)]
  for path in recorded:
    if path not in paths:
      _warn_of_missing_folder(str(folder.path), path)
  sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]


@functools.cache  # once for each folder: a command reads a config several times
def _warn_of_missing_folder(run: str, path: str) -> None:
  """Logs that a run's recorded folder of modules no longer exists."""
  logging.warning(
    "run %r has modules of %r, which no longer exists: those of the same name "
    "in the working folder or on the Python path are used",
    run,
    path,
  )


def _module_names(config: ml_collections.ConfigDict) -> Iterator[str]:
  """Yields the top-level package of each 'package.module:Name' in a config."""
  for value in fields.flatten(config).values():
    for text in value if isinstance(value, tuple) else (value,):
      if isinstance(text, str) and (match := _NAME.fullmatch(text)):
        yield match[1]
