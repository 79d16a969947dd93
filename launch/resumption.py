"""Resumption: what a run that goes on may be, from its newest snapshot.

All is refused that the snapshot could not follow, before anything is started:
this imports neither TensorFlow nor Reverb.
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

# Seconds in which the nodes of a launcher that was killed end.
_ENDS_WITHIN_S = 25.0
_LOOK_S = 0.1
# Fields, or parts of a config, that the saved state can't follow, and why.
_FIXED = {
  "agent": "the saved variables are another algorithm's",
  "environment": "the saved transitions are of another environment",
  "network": "the saved variables would not fit",
  "normalization": "the saved variables were learned by the other setting",
  "adder": "the saved transitions were formed otherwise",
  "replay.transitions_per_item": "the saved items have as many as that",
  "replay.shards": "the saved items are shared out among as many servers",
}
# The same in one process, whose table is not Reverb's.
_FIXED_IN_SINGLE = {
  "seed": "the saved random states go on",
  "replay.sampler": "a uniform table saves no priorities",
}
# limit: how its count is written
_COUNTED_AS = {
  "environment_steps": "{:,} environment steps",
  "trainer_steps": "{:,} trainer steps",
  "episodes": "{:,} episodes",
  "wall_clock_s": "taken {:,.1f} s",
  "target_return": "a mean return of {:,.2f} in its last evaluation",
  "evaluations_without_improvement": "{:,} evaluations without improvement",
}


def wait_until_ended(folder: run_folder.RunFolder) -> None:
  """Waits for the nodes of a launcher that was killed: they are saving.

  Args:
    folder: of the run.

  Raises:
    ValueError: one line: a control node still answers for the run.
  """
  end_s = time.monotonic() + _ENDS_WITHIN_S
  waits = False
  while (where := run_address.read(folder)) is not None and not where.gone:
    here = where.host == socket.gethostname()
    if not here or time.monotonic() > end_s:
      raise ValueError(
        f"run {str(folder.path)!r} still goes on, in process {where.pid} of "
        f"{where.host}: stop it (slipway control --run={folder.path} "
        f"stop), or remove {str(run_address.path_in(folder))!r} if that "
        "process is another one"
      )
    if not waits:
      logging.warning(
        "waiting for process %d, which saves the run since its launcher was "
        "killed: up to %.0f s",
        where.pid,
        _ENDS_WITHIN_S,
      )
    waits = True
    time.sleep(_LOOK_S)


@dataclasses.dataclass(frozen=True)
class Resumption:
  """A run that goes on.

  ```python
  resumption = Resumption.of(folder, config, table)
  resumption.begin()
  ```

  Attributes:
    folder: of the run.
    config: with which it goes on.
    snapshot: from which it goes on.
    counters: of the snapshot.
  """

  folder: run_folder.RunFolder
  config: ml_collections.ConfigDict
  snapshot: snapshot_store.Snapshot
  counters: run_counters.RunCounters

  @classmethod
  def of(
    cls,
    folder: run_folder.RunFolder,
    config: ml_collections.ConfigDict,
    table: table_spec.TableSpec | None,
  ) -> "Resumption":
    """Finds the newest snapshot, and whether a config can go on from it.

    If a store has a newer one than the folder, it is brought there.

    Args:
      folder: of the run.
      config: the whole config, validated.
      table: of its algorithm; None: it has none.

    Raises:
      ValueError: one line: the run still goes on, there is no snapshot, or a
        field is one that it could not follow.
      OSError: one line: the store can't be read, and the folder has none.
    """
    wait_until_ended(folder)
    snapshot = snapshot_store.open_store(config, folder).newest()
    if snapshot is None:
      raise ValueError(
        f"run {str(folder.path)!r} has no whole snapshot{_elsewhere(config)}, "
        "so there is nothing to go on from: start it anew"
      )
    counters = run_counters.RunCounters.read(snapshot.path)
    _check_mode(config.mode, counters.mode)
    _check_fixed(folder, snapshot, config)
    _check_capacity(config, table, counters.replay_size)
    _check_limits(config.limits, counters)
    return cls(folder, config, snapshot, counters)

  def begin(self) -> None:
    """Makes the folder that of a run under way, with the new config.

    Raises:
      OSError: one line naming the file that could not be written.
    """
    self.folder.path.chmod(
      0o700
    )  # one that was copied may be another's to read
    self.folder.make_subfolders()
    self.folder.write_config(self.config)
    # It tells of an end that is none any more.
    with run_folder.writing(self.folder.summary):
      self.folder.summary.unlink(missing_ok=True)

  def __str__(self) -> str:
    """'resumes from snapshot 3: 12,345 environment steps, ...'."""
    return (
      f"resumes from snapshot {self.snapshot.number}: "
      f"{self.counters.environment_steps:,} environment steps, "
      f"{self.counters.trainer_steps:,} trainer steps"
    )


def _elsewhere(config: ml_collections.ConfigDict) -> str:
  url = config.snapshot.url
  return f", nor has {url!r}" if url else ""


def _check_fixed(
  folder: run_folder.RunFolder,
  snapshot: snapshot_store.Snapshot,
  config: ml_collections.ConfigDict,
) -> None:
  """Raises ValueError for a field that must stay and has changed.

  That is by an override, or because config.json was damaged or exchanged: the
  snapshot has a copy of the config that it belongs to.
  """
  copy = snapshot.path / run_folder.CONFIG
  saved = config_file.read(copy)
  if change := _find_change(saved, run_config.read(folder.path)):
    name, old, new, why = change
    raise ValueError(
      f"{str(folder.config)!r} has {name}={fields.show(new)}, and the run's "
      f"snapshot {snapshot.number} was written with {fields.show(old)}: {why}; "
      f"restore the file from {str(copy)!r}"
    )
  if change := _find_change(saved, config):
    name, old, new, why = change
    raise ValueError(
      f"--config.{name}={fields.show(new)} can't change as a run goes on: "
      f"{why}; it was {fields.show(old)}: leave it out, or start anew"
    )


def _find_change(
  before: ml_collections.ConfigDict, after: ml_collections.ConfigDict
) -> tuple[str, typing.Any, typing.Any, str] | None:
  """Returns the first changed field: name, both values, why it is fixed."""
  fixed = _FIXED | (_FIXED_IN_SINGLE if after.mode == "single" else {})
  old, new = (fields.flatten(c) for c in (before, after))
  for name in sorted(old.keys() | new.keys()):
    for part, why in fixed.items():
      if f"{name}.".startswith(f"{part}.") and old.get(name) != new.get(name):
        return name, old.get(name), new.get(name), why
  return None


def _check_mode(mode: str, saved: str) -> None:
  if (mode == "single") != (saved == "single"):
    raise ValueError(
      f"--mode={mode} can't go on from a snapshot of mode {saved!r}, whose "
      "replay is saved in another form: leave it out, or start anew"
    )


def _check_capacity(
  config: ml_collections.ConfigDict,
  table: table_spec.TableSpec | None,
  items: int,
) -> None:
  if table is None or table.consumed or table.shards * table.capacity >= items:
    return
  saved = items * table.steps_per_item
  raise ValueError(
    f"--config.replay.capacity={config.replay.capacity} is below the {saved} "
    f"transitions of the snapshot, which would not fit: give {saved} or more, "
    "or start from scratch"
  )


def _check_limits(
  limits: ml_collections.ConfigDict, counters: run_counters.RunCounters
) -> None:
  """Raises ValueError for a limit that would end the run at once."""
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
