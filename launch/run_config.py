"""Run config: reads and checks the config of an existing run."""

import os
import pathlib

import ml_collections
from absl import logging

from slipway.configs import fields
from slipway.launch.options import overrides
from slipway.launch.runs import config_file, run_folder, user_modules


def read(path: str | os.PathLike[str]) -> ml_collections.ConfigDict:
  """Returns the config of an existing run, with all fields checked.

  If config.json is damaged, the newest valid copy in a snapshot is used, with a
  warning. A missing field is an error, because its default may have changed
  since the run's start. From now on, this process finds the run's own modules
  before others of the same name; see `user_modules.prefer_recorded`.

  Args:
    path: the run's folder.

  Raises:
    ValueError: there is no such run, or its config and all copies are
      unreadable or invalid.
  """
  folder = run_folder.RunFolder.open(path)
  user_modules.prefer_recorded(folder)
  try:
    return _read_checked(folder.config)
  except ValueError as error:
    copies = folder.snapshots.glob(f"[0-9]*/{run_folder.CONFIG}")
    for copy in sorted(copies, reverse=True):
      try:
        config = _read_checked(copy)
      except ValueError:
        continue
      logging.warning("%s; its copy %s is used", error, copy)
      return config
    raise


def _read_checked(path: pathlib.Path) -> ml_collections.ConfigDict:
  """Reads a config file and checks all fields.

  Raises:
    ValueError: the file can't be read, or a field is missing or invalid.
  """
  config = config_file.read(path)
  try:
    declared = overrides.declared_fields(config)
    config = fields.convert_numbers(config, declared)
    fields.validate(config, declared)
  except ValueError as error:
    raise ValueError(
      f"{str(path)!r} is damaged, or another version of the program wrote it "
      f"({error}), so the run can't be used: restore the file, or start a new "
      "run"
    ) from error
  return config
