"""Runs of a sweep: their state, and the processes `slipway train`.

`TrainProcess` is such a process on this machine. On a Ray cluster it is an
actor, on any machine with enough CPUs, and `RemoteProcess` calls it.
"""

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import time
import typing
from collections.abc import Sequence

import numpy as np

from slipway.environments import ids, user_code
from slipway.launch.api import running
from slipway.launch.checks import resumption
from slipway.launch.control import limits
from slipway.launch.hooks import event
from slipway.launch.processes import attached_process
from slipway.launch.runs import (
  config_file,
  curves,
  error_text,
  run_folder,
  run_lock,
  run_status,
  snapshot_store,
)

_POLL_S = 0.2  # seconds between two checks whether a run has ended
_MAX_LOSSES = 5  # machines of a run that Ray replaces
# Seconds within which an actor that has a machine has received a stop.
_STOP_TIMEOUT_S = 10.0
_LOG_TAIL_BYTES = 4_096
# Limits after which a run has no more to do.
_LIMITS = {*limits.Counts._fields, limits.ALL_LIMITS}


class SweepRun(typing.NamedTuple):
  """One run of a sweep, which may not have begun.

  Attributes:
    sweep: absolute path of the sweep's folder.
    setting: index of the setting.
    seed: the run's seed.
  """

  sweep: pathlib.Path
  setting: int
  seed: int

  @property
  def name(self) -> str:
    """Name of the run's folder."""
    return f"{self.setting}-{self.seed}"

  @property
  def folder(self) -> run_folder.RunFolder:
    """The run's folder."""
    return run_folder.RunFolder(self.sweep / self.name)

  @property
  def config(self) -> pathlib.Path:
    """Path of the config of the setting."""
    return self.sweep / f"{self.setting}.json"

  @property
  def environment(self) -> str:
    """Gymnasium's id of the setting's environment, '' if it is unknown."""
    return _read_environment(self.config)

  def read_summary(self) -> run_status.RunStatus | None:
    """Returns the run's summary, or None if the run has no readable one."""
    try:
      return run_status.read_summary(self.folder)
    except (FileNotFoundError, ValueError):
      return None

  def read_evaluations(self) -> dict[str, np.ndarray]:
    """Returns the rows [N] of curves.csv with a mean return, by column."""
    return curves.read_evaluations(self.folder.curves_csv)

  def count_env_steps(self) -> int | None:
    """Returns the environment steps of a run that is active on this machine."""
    with (
      contextlib.suppress(running.RunUnavailableError, ValueError),
      running.connect(self.folder) as control,
    ):
      return control.status().env_steps
    return None

  def is_done(self) -> bool:
    """Returns whether the run was ended by one of its limits or hooks.

    A run whose time limit passed before its first update has failed.
    """
    summary = self.read_summary()
    if summary is None or summary.ended_before_first_update:
      return False
    because = summary.stopped_because or ""
    return because in _LIMITS or because.startswith(event.HOOK_STOP)

  def is_active(self) -> bool:
    """Returns whether a process executes the run, as after a killed sweep."""
    return run_lock.is_held(self.folder)

  def can_resume(self) -> bool:
    """Returns whether the run has a complete snapshot, from which it continues.

    A run whose time limit passed before its first update begins again, since
    the limit counts over resumes.
    """
    summary = self.read_summary()
    if summary and summary.ended_before_first_update:
      return False
    store = snapshot_store.SnapshotStore(self.folder)
    return self.folder.is_run() and store.has_snapshots()

  def was_killed_at_limit(self) -> bool:
    """Returns whether its snapshot is the last one, though no summary says so.

    Such a run can't be resumed.
    """
    try:
      return self.can_resume() and resumption.has_reached_limit(self.folder)
    except (ValueError, OSError):
      return False  # `slipway train` reports why it can't be resumed


class TrainProcess:
  """The process of a run on this machine, with its output in a file."""

  def __init__(self, run: SweepRun, flags: Sequence[str]):
    """Starts nothing yet; the flags place the run's nodes."""
    self.run, self._flags = run, flags
    self._process: attached_process.AttachedProcess | None = None
    # A batch system may have sent it to the run, too, so that it must not kill.
    self._stop_signal = signal.SIGTERM

  def start(self) -> "TrainProcess":
    """Starts or resumes the run, and returns this object.

    Raises:
      OSError: the sweep's folder is not on this machine, or can't be written.
    """
    run = self.run
    if not run.config.exists():
      raise OSError(
        f"{str(run.sweep)!r} is not the sweep's folder on this machine, so "
        "nothing of the run would be kept: give a --run_dir that all machines "
        "share"
      )
    flags = [
      *(f"--config={run.config}", f"--config.seed={run.seed}"),
      *(f"--run_dir={run.sweep}", f"--name={run.name}"),
      "--overwrite",  # a run that has saved nothing begins again
    ]
    if run.can_resume():
      flags = [f"--resume={run.folder.path}"]
    self._log = run.folder.path.with_suffix(".log")
    with self._log.open("ab") as log:
      self._log_start = log.tell()
      self._process = attached_process.AttachedProcess(
        [*flags, *self._flags],
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a Ctrl-C reaches only this process
      )
    return self

  def poll(self) -> str | None:
    """Returns None while the run lasts, then why it has failed, or ''."""
    assert self._process is not None
    if self._process.poll() is None:
      return None
    with self._log.open("rb") as log:  # the part of this process
      end = log.seek(0, os.SEEK_END)
      log.seek(max(self._log_start, end - _LOG_TAIL_BYTES))
      lines = log.read().decode("utf-8", "replace").splitlines()
    return self._process.explain_end(lines)

  def stop(self) -> None:
    """Requests that the run stops with a last snapshot; a second call kills."""
    if self._process is not None:
      self._process.send_signal(self._stop_signal)
      self._stop_signal = signal.SIGINT  # kills, after another signal

  def train(self) -> str:
    """Starts the run, and waits for its end; returns why it failed, or ''."""
    if self._process is None:  # Ray repeats a call that it has lost sight of
      self.start()
    while (error := self.poll()) is None:
      time.sleep(_POLL_S)
    return error


class RemoteProcess:
  """A `TrainProcess` on a machine of a cluster, as a Ray actor.

  If its machine is lost, Ray starts it on another one, where the run continues.
  """

  def __init__(self, run: SweepRun, flags: Sequence[str], cpus: int):
    """Starts the run once a machine has the CPUs for it; see `TrainProcess`."""
    import ray  # takes a second, and only sweeps on a cluster need it

    self.run, self._ray = run, ray
    self._actor: typing.Any = (
      ray.remote(TrainProcess)
      .options(
        num_cpus=cpus,
        max_concurrency=2,  # `stop` is called during `train`
        max_restarts=_MAX_LOSSES,
        max_task_retries=_MAX_LOSSES,
      )
      .remote(run, flags)
    )
    self._end = self._actor.train.remote()
    self._stop: typing.Any = None  # call of the last stop
    self._stop_by_s = 0.0  # when that call must have returned
    self._error: str | None = None

  def poll(self) -> str | None:
    """As `TrainProcess.poll`."""
    if self._error is not None:
      return self._error
    if self._is_ready(self._end):
      try:
        self._error = self._ray.get(self._end)
      except self._ray.exceptions.RayTaskError as error:
        self._error = error_text.one_line(error.cause)
      except self._ray.exceptions.RayError as error:
        self._error = f"its machine was lost: {error_text.one_line(error)}"
      self._actor = None  # Ray ends it
    elif self._stop and time.monotonic() > self._stop_by_s:
      if self._is_ready(self._stop):
        self._stop = None
      else:
        self._ray.kill(self._actor)
        self._error = "stopped before it had a machine"
    return self._error

  def stop(self) -> None:
    """As `TrainProcess.stop`."""
    if self._error is None:
      self._stop = self._actor.stop.remote()
      self._stop_by_s = time.monotonic() + _STOP_TIMEOUT_S

  def _is_ready(self, call: typing.Any) -> bool:
    return bool(self._ray.wait([call], timeout=0)[0])


Process = TrainProcess | RemoteProcess


@functools.cache
def _read_environment(config: pathlib.Path) -> str:
  """Returns `SweepRun.environment`, which never changes."""
  try:
    environment = config_file.read(config).environment
    return ids.get_name_and_kwargs(environment)[0]
  except (ValueError, user_code.UserCodeError):
    return ""  # of a setting that can't be trained
