"""Run config: reads and checks the config of an existing run."""

import os
import pathlib

import ml_collections
from absl import logging

from slipway.configs import fields
from slipway.launch.checks import overrides
from slipway.launch.runs import config_file, run_folder, user_modules


def read(
  path: str | os.PathLike[str], trust: bool = False
) -> ml_collections.ConfigDict:
  """Returns the config of an existing run, with all fields checked.

  If config.json is damaged or lacks fields, the newest valid copy in a snapshot
  is used, with a warning. If no copy has all fields either, an older version of
  the program wrote them: the fields get their defaults, with which a run is
  what it was before they existed, and a warning names them. From now on, this
  process finds the run's own modules before others of the same name; see
  `user_modules.prefer_recorded`.

  Args:
    path: the run's folder.
    trust: whether another user may have written its files, whose code runs.

  Raises:
    ValueError: there is no such run, its config and all copies are unreadable
      or invalid, or the folder is not trusted.
  """
  folder = run_folder.RunFolder.open(path, trust)
  copies = folder.snapshots.glob(f"[0-9]*/{run_folder.CONFIG}")
  files = [folder.config, *sorted(copies, reverse=True)]
  errors = []
  for may_lack_fields in (False, True):
    for file in files:
      try:
        config = read_file(file, may_lack_fields, folder)
      except ValueError as error:
        errors.append(error)
        continue
      if file != folder.config:
        logging.warning("%s; its copy %s is used", errors[0], file)
      return config
  raise errors[0]


def read_file(
  path: pathlib.Path,
  may_lack_fields: bool = True,
  folder: run_folder.RunFolder | None = None,
) -> ml_collections.ConfigDict:
  """Reads one config file of a run, and checks all fields.

  Args:
    path: path of config.json, or of its copy in a snapshot.
    may_lack_fields: whether missing fields get their defaults, with a warning.
    folder: folder of the run whose recorded modules the config needs, or None
      if they can be found already.

  Raises:
    ValueError: the file can't be read, or a field is missing or invalid.
  """
  config = config_file.read(path)
  if folder is not None:
    user_modules.prefer_recorded(folder, config)
  try:
    declared = overrides.declared_fields(config)
    missing = []
    if may_lack_fields and not fields.find_unknown(config, declared):
      missing = fields.find_missing(config, declared)
    config = fields.convert_numbers(config, declared)
    config = fields.add_defaults(config, missing, declared)
    fields.validate(config, declared)
  except ValueError as error:
    raise ValueError(
      f"{str(path)!r} is damaged, or another version of the program wrote it "
      f"({error}), so the run can't be used: restore the file, or start a new "
      "run"
    ) from error
  if missing:
    shown = ", ".join(
      f"{name}={fields.format_value(declared[name].default)}"
      for name in missing
    )
    logging.warning(
      "%s lacks fields, as a run of an older version does; they get their "
      "defaults: %s",
      path,
      shown,
    )
  return config
