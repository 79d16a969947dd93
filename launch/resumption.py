"""Resumption: checks that a run can be resumed, and prepares its folder.

It rejects changes that do not fit the saved state before anything is started.
It imports neither TensorFlow nor Reverb.
"""

import dataclasses
import socket
import time
import typing

import ml_collections
from absl import logging

from slipway.configs import fields
from slipway.launch import run_config
from slipway.launch.orchestration import limits as limits_lib
from slipway.launch.runs import (
  config_file,
  run_address,
  run_counters,
  run_folder,
  snapshot_store,
)
from slipway.replay.tables import table_spec

# Seconds within which the nodes of a killed launcher end.
_END_TIMEOUT_S = 25.0
_POLL_S = 0.1
# Fields and sections of a config that can't change in a resume, and the
# reasons.
_FIXED = {
  "agent": "the saved variables belong to another algorithm",
  "environment": "the saved transitions come from another environment",
  "network": "the saved variables would not fit",
  "normalization": "the saved variables were learned with the other setting",
  "adder": "the saved transitions were formed by other rules",
  "replay.transitions_per_item": "the saved items have so many transitions",
  "replay.shards": "the saved items are spread over that number of servers",
}
# Further fields that can't change in a resume in mode 'single'.
_FIXED_IN_SINGLE = {
  "seed": "the saved random states belong to it",
  "replay.sampler": "a uniform table saves no priorities",
}
# Text with the count of each limit, for error messages.
_COUNTED_AS = {
  "environment_steps": "{:,} environment steps",
  "trainer_steps": "{:,} trainer steps",
  "episodes": "{:,} episodes",
  "wall_clock_s": "taken {:,.1f} s",
  "target_return": "a mean return of {:,.2f} in its last evaluation",
  "evaluations_without_improvement": "{:,} evaluations without improvement",
}


def wait_until_ended(folder: run_folder.RunFolder) -> None:
  """Waits until the nodes of a killed launcher have saved and ended.

  Args:
    folder: the run's folder.

  Raises:
    ValueError: the run is still active.
  """
  end_s = time.monotonic() + _END_TIMEOUT_S
  has_warned = False
  while address := run_address.read(folder):
    if address.is_down:
      break
    is_here = address.host == socket.gethostname()
    if not is_here or time.monotonic() > end_s:
      raise ValueError(
        f"run {str(folder.path)!r} is still active, process {address.pid} of "
        f"{address.host}: stop it (slipway control --run={folder.path} "
        f"stop), or remove {str(run_address.path_in(folder))!r} if the "
        "process belongs to something else"
      )
    if not has_warned:
      logging.warning(
        "waiting up to %.0f s for process %d, which saves the run after its "
        "launcher was killed",
        _END_TIMEOUT_S,
        address.pid,
      )
    has_warned = True
    time.sleep(_POLL_S)


@dataclasses.dataclass(frozen=True)
class Resumption:
  """A run that is resumed from its newest snapshot.

  ```python
  resumption = Resumption.from_folder(folder, config, table)
  resumption.begin()
  ```

  Attributes:
    folder: the run's folder.
    config: the config of the resumed run.
    snapshot: the snapshot from which the run continues.
    counters: counters of the snapshot.
  """

  folder: run_folder.RunFolder
  config: ml_collections.ConfigDict
  snapshot: snapshot_store.Snapshot
  counters: run_counters.RunCounters

  @classmethod
  def from_folder(
    cls,
    folder: run_folder.RunFolder,
    config: ml_collections.ConfigDict,
    table: table_spec.TableSpec | None,
  ) -> "Resumption":
    """Finds the newest snapshot, and checks that it fits a config.

    A newer snapshot at the remote location is downloaded first.

    Args:
      folder: the run's folder.
      config: the whole config, validated.
      table: specification of the algorithm's table, or None if it has none.

    Raises:
      ValueError: the run is still active, has no snapshot, or a
        changed field does not fit the snapshot.
      OSError: the remote location can't be read, and the folder has
        no snapshot.
    """
    wait_until_ended(folder)
    snapshot = snapshot_store.open_store(config, folder).newest()
    if snapshot is None:
      raise ValueError(
        f"run {str(folder.path)!r} has no whole snapshot"
        f"{_describe_remote(config)}, so it can't be resumed: start a new run"
      )
    counters = run_counters.RunCounters.read(snapshot.path)
    _check_mode(config.mode, counters.mode)
    _check_fixed(folder, snapshot, config)
    _check_capacity(config, table, counters.replay_size)
    _check_limits(config.limits, counters)
    return cls(folder, config, snapshot, counters)

  def begin(self) -> None:
    """Prepares the folder for the resumed run, and writes the new config.

    Raises:
      OSError: a file could not be written; the message names it.
    """
    self.folder.path.chmod(0o700)  # a copy may be readable for other users
    self.folder.make_subfolders()
    self.folder.write_config(self.config)
    # The summary describes an end that the resume revokes.
    with run_folder.writing(self.folder.summary):
      self.folder.summary.unlink(missing_ok=True)

  def __str__(self) -> str:
    """Returns a line such as 'resumes from snapshot 3: ...', with counts."""
    return (
      f"resumes from snapshot {self.snapshot.number}: "
      f"{self.counters.environment_steps:,} environment steps, "
      f"{self.counters.trainer_steps:,} trainer steps"
    )


def _describe_remote(config: ml_collections.ConfigDict) -> str:
  """Returns the part of an error message about the remote location."""
  url = config.snapshot.url
  return f", nor has {url!r}" if url else ""


def _check_fixed(
  folder: run_folder.RunFolder,
  snapshot: snapshot_store.Snapshot,
  config: ml_collections.ConfigDict,
) -> None:
  """Raises ValueError if a field has changed that must not change in a resume.

  The new config, with its overrides, and the run's config.json, which may be
  damaged, are compared with the copy of the config in the snapshot.
  """
  copy = snapshot.path / run_folder.CONFIG
  saved = config_file.read(copy)
  if change := _find_forbidden_change(saved, run_config.read(folder.path)):
    name, old, new, why = change
    raise ValueError(
      f"{str(folder.config)!r} has {name}={fields.format_value(new)}, and the "
      f"run's snapshot {snapshot.number} was written with "
      f"{fields.format_value(old)}: {why}; restore the file from {str(copy)!r}"
    )
  if change := _find_forbidden_change(saved, config):
    name, old, new, why = change
    raise ValueError(
      f"--config.{name}={fields.format_value(new)} can't change in a resume: "
      f"{why}; it was {fields.format_value(old)}: leave it out, or start a new "
      "run"
    )


def _find_forbidden_change(
  before: ml_collections.ConfigDict, after: ml_collections.ConfigDict
) -> tuple[str, typing.Any, typing.Any, str] | None:
  """Returns the first changed field that must not change in a resume.

  Args:
    before: config of the saved run.
    after: config of the resumed run.

  Returns:
    Name, old value, new value and reason why it must not change, or None if no
    such field has changed.
  """
  fixed = _FIXED | (_FIXED_IN_SINGLE if after.mode == "single" else {})
  old, new = (fields.flatten(c) for c in (before, after))
  for name in sorted(old.keys() | new.keys()):
    for prefix, why in fixed.items():
      changed = old.get(name) != new.get(name)
      if changed and f"{name}.".startswith(f"{prefix}."):
        return name, old.get(name), new.get(name), why
  return None


def _check_mode(mode: str, saved: str) -> None:
  """Raises ValueError if only one of two modes is 'single'."""
  if (mode == "single") != (saved == "single"):
    raise ValueError(
      f"--mode={mode} can't resume from a snapshot of mode {saved!r}, whose "
      "replay is saved in another form: leave it out, or start a new run"
    )


def _check_capacity(
  config: ml_collections.ConfigDict,
  table: table_spec.TableSpec | None,
  items: int,
) -> None:
  """Raises ValueError if the snapshot's items would not fit into the table."""
  if table is None or table.consumed or table.shards * table.capacity >= items:
    return
  saved = items * table.steps_per_item
  raise ValueError(
    f"--config.replay.capacity={config.replay.capacity} is below the {saved} "
    f"transitions of the snapshot, which would not fit: give {saved} or more, "
    "or start a new run"
  )


def _check_limits(
  limits: ml_collections.ConfigDict, counters: run_counters.RunCounters
) -> None:
  """Raises ValueError if a limit is reached already."""
  counts = limits_lib.Counts.from_counters(counters)
  if limits_lib.find_reason(limits, counts) is None:
    return
  name = limits_lib.find_reached(limits, counts)[0]
  has = _COUNTED_AS[name].format(getattr(counts, name))
  none = "inf" if name == "target_return" else "0"
  raise ValueError(
    f"config.limits.{name}={limits[name]!r} is reached: the run has {has}, so "
    f"it would end at once; raise it with --config.limits.{name}=... "
    f"({none}: no limit)"
  )
