"""SnapshotWriter: writes snapshots of a run while its trainer goes on."""

import functools
import pathlib
import threading
import time
from collections.abc import Callable, Sequence

import ml_collections
import msgspec
from absl import logging

from slipway.agents import core
from slipway.launch.orchestration import control_service, messages
from slipway.launch.rpc import client as rpc_client
from slipway.launch.runs import (
  checkpoints,
  run_counters,
  run_folder,
  snapshot_store,
)
from slipway.replay.tables import shards_snapshot, table_snapshot

TABLES = "replay"  # folder of the replay servers' tables in a snapshot

_LOOK_S = 0.1
_RETRY_S = 0.5


class SnapshotWriter:
  """One for each trainer.

  ```python
  writer.start(version)  # between two updates; the learner may go on
  ...
  writer.finish(version, timeout_s=4.0)
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
    is_up: Callable[[int], bool] = lambda shard: True,
  ):
    """Writes nothing yet.

    Args:
      config: the whole config.
      folder: of the run.
      learner: which stands still while `start` runs.
      servers: addresses of the TrajectoryManagers; of this machine.
      control: client of the control node, which knows
        all counts.
      store: of the run, whose `last` snapshot the run continues from.
      is_up: whether a server is there, by its shard; of one alone it is not
        asked.
    """
    self._folder, self._learner = folder, learner
    self._servers, self._control = servers, control
    self._is_up = is_up
    self._store = store
    self._period_s = config.snapshot.period_s
    self._due_s = time.monotonic() + self._period_s
    self._copied = threading.Event()
    self._thread: threading.Thread | None = None
    self._error: Exception | None = None  # of the last one
    self._pause_s: float | None = None
    # The best snapshot itself may be at the remote place only.
    self._best = _best_return(store.last)
    store.upload_last()

  @property
  def due(self) -> bool:
    """Whether a period has passed since the last one began."""
    return time.monotonic() >= self._due_s

  @property
  def writing(self) -> bool:
    """Whether one is under way."""
    return self._thread is not None and self._thread.is_alive()

  def start(self, variables_version: int) -> None:
    """Begins a snapshot; returns when nothing that follows can get into it.

    If one is still being written, there is no other: it is as new as the disk
    allows.

    Args:
      variables_version: of the last variables that the trainer has published.
    """
    self._due_s = time.monotonic() + self._period_s
    if self.writing:
      logging.warning("no new snapshot: the disk is busy with the last one")
      return
    began_s = time.monotonic()
    self._begin(variables_version).wait()
    self._pause_s = time.monotonic() - began_s

  def finish(self, variables_version: int, timeout_s: float) -> None:
    """Writes the last snapshot, after the one that may be under way.

    In what is left of the time it is uploaded.

    Args:
      variables_version: of the last variables that the trainer has published.
      timeout_s: seconds after which it is given up, which the log says: the one
        before counts.

    Raises:
      RuntimeError: it could not be written.
    """
    end_s = time.monotonic() + timeout_s
    self.wait(timeout_s)
    while not self.writing:
      self._begin(variables_version)
      self.wait(end_s - time.monotonic())
      unreachable = isinstance(self._error, rpc_client.UnreachableError)
      if not unreachable or time.monotonic() + _RETRY_S > end_s:
        break
      time.sleep(_RETRY_S)  # the control node may be restarting
    if self.writing:
      last = self._store.last
      logging.warning(
        "the last snapshot was not written within %.0f s; %s",
        timeout_s,
        f"the run can be resumed from number {last.number}"
        if last
        else "it was the first, so the run can't be resumed",
      )
    elif self._error is not None:
      raise RuntimeError("the last snapshot is missing") from self._error
    else:
      self._store.flush(end_s - time.monotonic())

  def wait(self, timeout_s: float) -> None:
    """Waits until nothing is being written, at most for so long."""
    if self._thread is not None:
      self._thread.join(max(0.0, timeout_s))

  def report(self) -> messages.SnapshotReport:
    """Returns the store's counts, and how long the learner paused."""
    return messages.SnapshotReport(
      pause_s=self._pause_s, **self._store.metrics()
    )

  def _begin(self, variables_version: int) -> threading.Event:
    """Starts the thread; returns what tells that all is copied."""
    self._copied.clear()
    self._error = None
    self._thread = threading.Thread(
      target=self._run, args=(variables_version,), name="snapshot", daemon=True
    )
    self._thread.start()
    return self._copied

  def _run(self, variables_version: int) -> None:
    try:
      self._write(variables_version)
    except Exception as error:  # The run goes on without this one.
      self._error = error
      said = " ".join(str(error).split())
      logging.error("no snapshot could be written: %s", said)
    finally:
      self._copied.set()

  def _write(self, variables_version: int) -> None:
    steps = int(self._learner.steps)
    # What the control node knows of the trainer is a report old.
    counters = msgspec.structs.replace(
      self._control.counters(),
      trainer_steps=steps,
      variables_version=variables_version,
    )
    best = counters.best_eval_return
    is_best = best is not None and (self._best is None or best > self._best)
    with self._store.writing(steps, is_best) as path:
      counters.write(path)
      checkpoints.save(path, self._learner)
      saving = self._save_tables(path)
      while not saving.wait_copied(_LOOK_S):
        pass
      self._copied.set()
      saving.finish()
    logging.info("snapshot %d is written", self._store.metrics()["written"])
    if is_best:
      self._best = best

  def _save_tables(
    self, path: pathlib.Path
  ) -> table_snapshot.Saving | shards_snapshot.ShardsSaving:
    """Begins to save all servers' tables into the folder of a snapshot."""
    shards = len(self._servers)
    parts = [
      shards_snapshot.ShardFolder(
        server,
        self._folder.replay_saving(shard),
        tables_path(path, shard, shards),
        functools.partial(self._is_up, shard),
      )
      for shard, server in enumerate(self._servers)
    ]
    if shards == 1:
      return table_snapshot.Saving(*parts[0][:3])

    def last() -> list[pathlib.Path] | None:
      last = self._store.last
      return last and [
        tables_path(last.path, shard, shards) for shard in range(shards)
      ]

    return shards_snapshot.ShardsSaving(parts, last)


def tables_path(
  snapshot: pathlib.Path, shard: int, shards: int
) -> pathlib.Path:
  """The folder of a snapshot that has the tables of a replay server.

  Args:
    snapshot: folder of the snapshot.
    shard: of the server, from 0.
    shards: number of servers; a single one has the whole folder.
  """
  path = snapshot / TABLES
  return path if shards == 1 else path / str(shard)


def _best_return(newest: snapshot_store.Snapshot | None) -> float | None:
  """Best return that the run had when its newest snapshot was written."""
  if newest is None:
    return None
  return run_counters.RunCounters.read(newest.path).best_eval_return
