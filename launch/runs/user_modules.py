"""User modules: the modules of a user's own that a config names.

A run's folder keeps where they are, so that the run can be resumed and played
from any working directory, and they are sent to the machines of a cluster.
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
_NAME = re.compile(r"([A-Za-z_]\w*)[\w.]*:[A-Za-z_][\w./-]*")
_INSTALLED = ("site-packages", "dist-packages")


def find(config: ml_collections.ConfigDict) -> list[pathlib.Path]:
  """Returns the files and packages that a config names as 'module:Name'.

  Installed packages are not among them.

  Args:
    config: the whole config.
  """
  found = {}
  for name in _named(config):
    with contextlib.suppress(ImportError, ValueError):
      spec = importlib.util.find_spec(name)
      if spec is None or name == "slipway":
        continue
      places = spec.submodule_search_locations or [spec.origin]
      path = pathlib.Path(str(next(iter(places)))).resolve()
      if path.exists() and not set(_INSTALLED) & set(path.parts):
        found[path] = None
  return list(found)


def write(
  folder: run_folder.RunFolder, config: ml_collections.ConfigDict
) -> None:
  """Notes in a run's folder where its user modules are."""
  places = list(dict.fromkeys(str(path.parent) for path in find(config)))
  if places:
    (folder.path / _FILE).write_text(json.dumps(places) + "\n", "utf-8")


def add_to_path(folder: run_folder.RunFolder) -> None:
  """Lets Python find the user modules of a run, after all other places."""
  try:
    places = json.loads((folder.path / _FILE).read_text("utf-8"))
  except (OSError, ValueError):
    return
  if isinstance(places, list):
    sys.path += [p for p in places if isinstance(p, str) and p not in sys.path]


def _named(config: ml_collections.ConfigDict) -> Iterator[str]:
  """Yields the top-level names of all modules that a config names."""
  for value in fields.flatten(config).values():
    for text in value if isinstance(value, tuple) else (value,):
      if isinstance(text, str) and (match := _NAME.fullmatch(text)):
        yield match[1]
