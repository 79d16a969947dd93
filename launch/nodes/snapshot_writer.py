"""SnapshotWriter: writes snapshots of a run while its trainer continues."""

import pathlib
import threading
import time
from collections.abc import Callable, Sequence

import ml_collections
import msgspec
from absl import logging

from slipway.agents import core
from slipway.launch.control import control_service
from slipway.launch.runs import (
  checkpoints,
  error_text,
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
)
from slipway.replay.tables import table_snapshot

# Name of the subfolder of a snapshot that holds the saved tables.
TABLES = "replay"

# Seconds between two checks whether the tables are copied, or the last snapshot
# is written.
_POLL_S = 0.1


class SnapshotWriter:
  """Writes a run's snapshots in a background thread of the trainer's process.

  ```python
  writer.start(version)  # between two updates; the learner may continue
  ...
  writer.finish(version, lambda: 4.0)
  ```
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    folder: run_folder.RunFolder,
    learner: core.Learner,
    servers: Sequence[str],
    control: control_service.ControlService,
    store: snapshot_store.SnapshotStore,
  ):
    """Makes a writer, and uploads the last snapshot unless it is uploaded.

    Args:
      learner: the trainer's learner; it must not change during `start`.
      servers: addresses of the TrajectoryManagers on this machine, by shard.
      control: client of the control, which has the run's counts.
      store: the run's snapshots; the run continues from `store.last`.
    """
    self._folder, self._learner = folder, learner
    self._servers, self._control = servers, control
    self._store = store
    self._period_s = config.snapshot.period_s
    self._due_s = time.monotonic() + self._period_s
    self._copied = threading.Event()
    self._thread: threading.Thread | None = None
    self._error: Exception | None = None  # of the last snapshot, if it failed
    self._pause_s: float | None = None
    self._finishing_since_s: float | None = None  # monotonic
    self._late = False
    # Best mean return so far, which the last snapshot contains. The best
    # snapshot itself may exist at the remote location only.
    self._best_return = _read_best_return(store.last)
    store.upload_last()

  @property
  def due(self) -> bool:
    """Whether `snapshot.period_s` has passed since the last snapshot began."""
    return time.monotonic() >= self._due_s

  @property
  def writing(self) -> bool:
    """Whether a snapshot is being written now."""
    return self._thread is not None and self._thread.is_alive()

  def start(self, variables_version: int) -> None:
    """Begins a snapshot; returns once learner and tables are copied.

    If the previous snapshot is still being written, no new one begins.

    Args:
      variables_version: newest version of the variables that the trainer has
        published.
    """
    self._due_s = time.monotonic() + self._period_s
    if self.writing:
      logging.warning("no new snapshot: the disk is busy with the last one")
      return
    began_s = time.monotonic()
    self._begin(variables_version).wait()
    self._pause_s = time.monotonic() - began_s

  def finish(
    self, variables_version: int, get_timeout_s: Callable[[], float]
  ) -> None:
    """Writes the run's final snapshot, and waits for its upload.

    If a snapshot is being written, this method waits for that one first.

    Args:
      variables_version: newest version of the variables that the trainer has
        published.
      get_timeout_s: function that returns the seconds for writing and upload
        together, which may change meanwhile. After them, an unfinished snapshot
        is abandoned with a warning, and the previous snapshot remains the
        newest.

    Raises:
      RuntimeError: the snapshot could not be written.
    """
    began_s = self._finishing_since_s = time.monotonic()

    def get_rest_s() -> float:
      return began_s + get_timeout_s() - time.monotonic()

    def wait() -> None:
      while self.writing and (rest_s := get_rest_s()) > 0:
        self.wait(min(rest_s, _POLL_S))

    wait()
    if not self.writing:  # after the timeout, an earlier one may be
      self._begin(variables_version)
      wait()
    if self.writing:
      self._late = True
      why = f"it takes longer than {get_timeout_s():.0f} s"
      logging.warning("%s", self._store.explain_loss(why))
    elif self._error is not None:
      why = error_text.one_line(self._error)
      raise RuntimeError(self._store.explain_loss(why)) from self._error
    else:
      self._store.flush(get_rest_s)
    self._finishing_since_s = None

  def wait(self, timeout_s: float) -> None:
    """Waits up to `timeout_s` seconds until no snapshot is being written."""
    if self._thread is not None:
      self._thread.join(max(0.0, timeout_s))

  def status(self) -> run_status.SnapshotsStatus:
    """Returns the state of the snapshots, for the control."""
    since_s = self._finishing_since_s
    return msgspec.structs.replace(
      self._store.status(),
      pause_s=self._pause_s,
      finishing_s=None if since_s is None else time.monotonic() - since_s,
      late=self._late,
    )

  def _begin(self, variables_version: int) -> threading.Event:
    """Starts the thread that writes a snapshot."""
    # The returned event is set once learner and tables are copied, or on
    # failure.
    self._copied.clear()
    self._error = None
    self._thread = threading.Thread(
      target=self._run, args=(variables_version,), name="snapshot", daemon=True
    )
    self._thread.start()
    return self._copied

  def _run(self, variables_version: int) -> None:
    """Writes a snapshot in the thread; logs an error instead of raising it."""
    try:
      self._write(variables_version)
    except Exception as error:  # the run continues without this snapshot
      self._error = error
      text = error_text.one_line(error)
      logging.error("no snapshot could be written: %s", text)
    finally:
      self._copied.set()

  def _write(self, variables_version: int) -> None:
    """Writes a snapshot; sets the event `_copied` once the state is copied."""
    # The trainer's own counts replace those of the control, which are as
    # old as the trainer's last report.
    counters = self._control.counters()
    status = counters.status
    status = msgspec.structs.replace(
      status,
      trainer_steps=int(self._learner.steps),
      variables=msgspec.structs.replace(
        status.variables, version=variables_version
      ),
    )
    counters = msgspec.structs.replace(counters, status=status)
    best = status.evaluation.best_mean_return
    is_best = best is not None and (
      self._best_return is None or best > self._best_return
    )
    with self._store.writing(is_best=is_best) as path:
      counters.write(path)
      checkpoints.save(path, self._learner)
      savers = self._save_tables(path)
      while not all(saver.wait_copied(_POLL_S) for saver in savers):
        pass
      self._copied.set()
      for saver in savers:
        saver.finish()
    logging.info("snapshot %d is written", self._store.status().written)
    if is_best:
      self._best_return = best

  def _save_tables(
    self, path: pathlib.Path
  ) -> Sequence[table_snapshot.TableSaver]:
    """Begins to save the tables of all servers into a snapshot's folder."""
    shards, savers = len(self._servers), []
    for shard, server in enumerate(self._servers):
      target = tables_path(path, shard, shards)
      target.parent.mkdir(exist_ok=True)
      saving_dir = self._folder.replay_saving(shard)
      savers.append(table_snapshot.TableSaver(server, saving_dir, target))
    return savers


def tables_path(
  snapshot: pathlib.Path, shard: int, shards: int
) -> pathlib.Path:
  """Returns the folder in a snapshot that holds the tables of one shard.

  Args:
    snapshot: the snapshot's folder.
    shard: index of the shard, from 0.
    shards: number of shards; a single shard has no subfolder.
  """
  path = snapshot / TABLES
  return path if shards == 1 else path / str(shard)


def list_tables(
  snapshot: pathlib.Path, config: ml_collections.ConfigDict
) -> list[pathlib.Path]:
  """Returns the folders of a run's table in a snapshot, one per shard."""
  if config.mode == "single":
    return [snapshot / "table"]
  shards = config.replay.shards
  return [tables_path(snapshot, i, shards) for i in range(shards)]


def _read_best_return(newest: snapshot_store.Snapshot | None) -> float | None:
  """Returns the best mean return of the evaluations before a snapshot."""
  if newest is None:
    return None
  counters = run_counters.RunCounters.read(newest.path)
  return counters.status.evaluation.best_mean_return
