"""Sweep folder: the plan of a sweep, and the state and results of its runs.

    runs/NAME/sweep.json    the plan
    runs/NAME/0-1/          the run of setting 0 with seed 1
    runs/NAME/0-1.log       its output
    runs/NAME/runs.csv, settings.csv, sweep.png    results

Only the plan and the runs' own files have state, so a sweep that was killed
loses nothing.
"""

import contextlib
import os
import pathlib
import shutil
import typing
from collections.abc import Sequence

import ml_collections
import msgspec
import numpy as np

from slipway.launch.orchestration import limits
from slipway.launch.runs import (
  curves,
  run_folder,
  run_lock,
  run_summary,
  snapshot_store,
)
from slipway.launch.sweeps import space

_PLAN = "sweep.json"
_LOG_TAIL_BYTES = 4_096
# Seconds within which the runs of a killed sweep have saved themselves.
_END_TIMEOUT_S = 30.0
# Reasons of a stop after which a run has no more to do.
_FINAL_REASONS = {*limits.Counts._fields, limits.ALL_LIMITS}


def is_sweep(path: pathlib.Path) -> bool:
  """Returns whether a folder is that of a sweep."""
  return (path / _PLAN).is_file()


class Plan(msgspec.Struct):
  """What a sweep trains.

  Attributes:
    flags: flags of `slipway train` for all runs, each as --NAME=VALUE or
      --NAME.
    working_folder: folder to which relative paths in flags refer.
    vary: the axes of the space, as values of --vary.
    search: name of the search.
    search_seed: seed of the search.
    max_settings: number of settings of a random search or of Optuna.
    seeds: the seeds with which each setting is trained.
    target_return: mean return of the config's target, or None.
    target_evaluations: number of evaluations in a row that meet the target.
    settings: the settings that the search has chosen so far.
    ray_address: 'host:port' of the Ray cluster that trains the runs, or None.
    insecure: whether a cluster without a token or without TLS is accepted.
    at_once: number of runs that are trained at the same time, or None for what
      the cores allow.
  """

  flags: list[str]
  working_folder: str
  vary: list[str]
  search: typing.Literal["grid", "random", "optuna"]
  search_seed: int
  max_settings: int
  seeds: typing.Annotated[list[int], msgspec.Meta(min_length=1)]
  target_return: float | None = None
  target_evaluations: int = 1
  settings: typing.Annotated[
    list[space.Setting], msgspec.Meta(min_length=1)
  ] = []
  ray_address: str | None = None
  insecure: bool = False
  at_once: int | None = None

  @property
  def target(self) -> float:
    """Mean return of the config's target, infinite without one."""
    return np.inf if self.target_return is None else self.target_return


class SweepRun(typing.NamedTuple):
  """One run of a sweep.

  Attributes:
    setting: index of the setting.
    seed: the run's seed.
    folder: the run's folder.
    log: path of the file with its output.
  """

  setting: int
  seed: int
  folder: run_folder.RunFolder
  log: pathlib.Path

  def is_done(self) -> bool:
    """Returns whether the run has ended at one of its limits.

    A run whose time limit passed before its first update has failed.
    """
    summary = self.read_summary()
    return (
      summary is not None
      and summary.stopped_because in _FINAL_REASONS
      and not summary.ended_before_first_update
    )

  def read_summary(self) -> run_summary.RunSummary | None:
    """Returns the run's summary, or None if the run has no readable one."""
    try:
      return run_summary.RunSummary.read(self.folder)
    except (FileNotFoundError, ValueError):
      return None

  def wait_until_ended(self) -> None:
    """Waits up to 30 s until an earlier process of the run has ended.

    Raises:
      ValueError: the process is still active after that time.
    """
    if self.folder.path.is_dir():
      run_lock.wait_until_free(self.folder, _END_TIMEOUT_S)

  def can_resume(self) -> bool:
    """Returns whether the run has a complete snapshot, from which it continues.

    A run whose time limit passed before its first update can't, since the limit
    counts over resumes.
    """
    summary = self.read_summary()
    if summary is not None and summary.ended_before_first_update:
      return False
    store = snapshot_store.SnapshotStore(self.folder)
    return self.folder.is_run() and store.has_snapshots()

  def has_snapshot(
    self, config: ml_collections.ConfigDict, has_begun: bool
  ) -> bool:
    """Returns whether the run has a snapshot, here or at `snapshot.url`.

    Args:
      config: the run's config.
      has_begun: whether the run has begun in this sweep. Snapshots at the URL
        may be of an older sweep if it has not.

    Raises:
      OSError: `snapshot.url`, which may have snapshots, can't be read.
      ValueError: `snapshot.url` can't be used on this machine.
    """
    if self.can_resume():
      return True
    if not (has_begun and self.folder.is_run()):
      return False
    store = snapshot_store.open_store(config, self.folder)
    return store.has_snapshots()

  def read_error(self, start: int) -> str:
    """Returns the last line of the log, which has the reason why a run failed.

    Args:
      start: size of the log in bytes before the process that has failed.
    """
    try:
      with self.log.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(start, log.tell() - _LOG_TAIL_BYTES))
        lines = log.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
      lines = []
    errors = [line for line in lines if line.startswith("train: ")] or lines
    return errors[-1].removeprefix("train: ") if errors else "no output"

  def read_evaluations(self) -> dict[str, np.ndarray]:
    """Returns the rows of curves.csv with a mean return, by column.

    Each column is [N] for N evaluations; there are none before the first one.
    """
    return curves.read_evaluations(self.folder.curves_csv)


class SweepFolder:
  """The folder of a sweep.

  Attributes:
    path: absolute path of the folder, which stays valid in other folders.
  """

  def __init__(self, path: pathlib.Path):
    """Sets the folder's path, without access to the folder."""
    self.path = path.absolute()

  @classmethod
  def create(cls, run_dir: str, name: str, overwrite: bool) -> "SweepFolder":
    """Makes the folder of a new sweep; an empty folder of that name is used.

    Args:
      run_dir: folder of all runs and sweeps; made if it is missing.
      name: name of the sweep's folder.
      overwrite: whether to delete an older sweep of that name with all its
        runs, once they have ended. Any other folder is never deleted.

    Raises:
      ValueError: the name or the path is invalid, the folder exists or can't be
        made, or one of its runs is still active after 30 s.
    """
    run_folder.check_name(name)
    folder = cls(pathlib.Path(run_dir, name))
    run_folder.check_path(folder.path)
    try:
      if folder.path.exists() and not run_folder.is_empty(folder.path):
        folder._check_replaceable(overwrite)
        with folder.locked():
          for config in folder.path.glob(f"*/{run_folder.CONFIG}"):
            run = run_folder.RunFolder(config.parent)
            run_lock.wait_until_free(run, _END_TIMEOUT_S)
          shutil.rmtree(folder.path)
      run_folder.make_private(folder.path)
    except OSError as error:
      raise ValueError(
        f"sweep folder {str(folder.path)!r} can't be made ({error.strerror}): "
        "choose another --name or --run_dir"
      ) from error
    return folder

  @classmethod
  def open(cls, path: str) -> "SweepFolder":
    """Returns the folder of an existing sweep.

    Raises:
      ValueError: there is no sweep at `path`, or it belongs to another user.
    """
    folder = cls(run_folder.expand(path))
    if not is_sweep(folder.path):
      raise ValueError(
        f"{path!r} has no {_PLAN}, so it is not a sweep: give the folder that "
        "`slipway sweep` has made"
      )
    for own in (folder.path, folder._plan):
      run_folder.check_owner(own, "copy it to a folder of your own")
    return folder

  def locked(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context that excludes other processes from the sweep.

    Entering raises ValueError if another process trains the sweep.
    """
    return run_lock.held(run_folder.RunFolder(self.path), "sweep")

  def write_plan(self, plan: Plan) -> None:
    """Writes the plan, which is replaced atomically.

    Raises:
      OSError: the file can't be written; the message has its path.
    """
    self.write(_PLAN, msgspec.json.format(msgspec.json.encode(plan), indent=2))

  def read_plan(self) -> Plan:
    """Reads the plan.

    Raises:
      ValueError: it can't be read.
    """
    try:
      return msgspec.json.decode(self._plan.read_bytes(), type=Plan)
    except (OSError, msgspec.DecodeError) as error:
      raise ValueError(
        f"{str(self._plan)!r} can't be read ({error}), so the sweep can't go "
        "on: restore the file, or begin a new sweep"
      ) from error

  def write(self, name: str, content: bytes) -> None:
    """Writes a file of the sweep, which is replaced atomically.

    Args:
      name: name of the file.
      content: the whole content.

    Raises:
      OSError: the file can't be written; the message has its path.
    """
    path = self.path / name
    with run_folder.writing(path), run_folder.replacing(path) as temporary:
      temporary.write_bytes(content)

  def list_runs(self, setting: int, seeds: Sequence[int]) -> list[SweepRun]:
    """Returns the runs of a setting, whether they have begun or not."""
    return [
      SweepRun(
        setting,
        seed,
        run_folder.RunFolder(self.path / f"{setting}-{seed}"),
        self.path / f"{setting}-{seed}.log",
      )
      for seed in seeds
    ]

  @property
  def _plan(self) -> pathlib.Path:
    """Path of the plan."""
    return self.path / _PLAN

  def _check_replaceable(self, overwrite: bool) -> None:
    """Checks that the existing folder may be deleted.

    Raises:
      ValueError: the user does not allow it, or it is no sweep.
    """
    shown = f"sweep folder {str(self.path)!r}"
    if not overwrite:
      raise ValueError(
        f"{shown} exists: choose another --name, continue it with --resume, or "
        "give --overwrite, which deletes it with all its runs"
      )
    if self.path.is_symlink() or not self._plan.is_file():
      raise ValueError(
        f"{shown} exists but is no sweep, so it is not overwritten: choose "
        "another --name"
      )
