"""SnapshotWriter: writes snapshots of a run while its trainer goes on."""

import functools
import pathlib
import threading
import time
import typing
from collections.abc import Callable, Sequence

import ml_collections
import msgspec
from absl import logging

from agents import core
from launch.nodes import replay_parts
from launch.orchestration import messages
from launch.runs import (
  checkpoints,
  run_counters,
  run_folder,
  snapshot_store,
  snapshot_uploader,
)
from launch.runs import snapshots as snapshots_lib
from replay import shards_snapshot, table_snapshot

_LOOK_S = 0.1


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
    control: typing.Any,
    newest: snapshots_lib.Snapshot | None,
    is_up: Callable[[int], bool] = lambda shard: True,
  ):
    """Writes nothing yet.

    Args:
      config: the whole config.
      folder: of the run.
      learner: which stands still while `start` runs.
      servers: addresses of the TrajectoryManagers; of this machine.
      control: `control_client.ControlClient` of the control node, which knows
        all counts.
      newest: snapshot that the run has; None: it has none.
      is_up: whether a server is there, by its shard; of one alone it is not
        asked.
    """
    self._folder, self._learner = folder, learner
    self._servers, self._control = servers, control
    self._is_up = is_up
    self._uploader = snapshot_uploader.SnapshotUploader(
      snapshot_store.SnapshotStore.of(config, folder.name), config.snapshot.keep
    )
    self._snapshots = snapshots_lib.Snapshots(
      folder.snapshots, config.snapshot.keep, self._uploader.in_use
    )
    self._period_s = config.snapshot.period_s
    self._due_s = time.monotonic() + self._period_s
    self._copied = threading.Event()
    self._thread: threading.Thread | None = None
    self._error: Exception | None = None  # of the last one
    self._number = newest.number if newest else 0
    # The best one itself may be in the store only.
    self._best = _best_return(newest)
    self._written_at_s = newest.path.stat().st_mtime if newest else None
    self._pause_s: float | None = None
    if newest:  # of a life that ended before it was uploaded, maybe
      self._uploader.offer(newest, best=newest == self._snapshots.best())

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
    if not self.writing:
      self._begin(variables_version)
      self.wait(end_s - time.monotonic())
    if self.writing:
      logging.warning(
        "the last snapshot was not written within %.0f s; number %d counts",
        timeout_s,
        self._number,
      )
    elif self._error is not None:
      raise RuntimeError("the last snapshot is missing") from self._error
    elif not self._uploader.wait(end_s - time.monotonic()):
      logging.warning(
        "the last snapshot was not uploaded within %.0f s; the one before "
        "counts for other machines",
        timeout_s,
      )

  def wait(self, timeout_s: float) -> None:
    """Waits until nothing is being written, at most for so long."""
    if self._thread is not None:
      self._thread.join(max(0.0, timeout_s))

  def report(self) -> messages.SnapshotReport:
    """Returns how many there are and where, when the newest was written."""
    return messages.SnapshotReport(
      self._number,
      self._written_at_s,
      self._pause_s,
      self._uploader.uploaded,
      self._uploader.failures,
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
    with self._snapshots.writing(steps) as path:
      # What the control node knows of the trainer is a report ago.
      counters = msgspec.structs.replace(
        self._control.counters(),
        trainer_steps=steps,
        variables_version=variables_version,
      )
      counters.write(path)
      checkpoints.save(path, self._learner)
      saving = self._save_tables(path)
      while not saving.wait_copied(_LOOK_S):
        pass
      at_s = time.time()
      self._copied.set()
      saving.finish()
    self._number += 1
    self._written_at_s = at_s
    logging.info("snapshot %d is written", self._number)
    best = counters.best_eval_return
    is_best = best is not None and (self._best is None or best > self._best)
    if is_best:
      self._snapshots.mark_best()
      self._best = best
    assert self._snapshots.written is not None
    self._uploader.offer(self._snapshots.written, is_best)

  def _save_tables(
    self, path: pathlib.Path
  ) -> table_snapshot.Saving | shards_snapshot.ShardsSaving:
    """Begins to save all servers' tables into the folder of a snapshot."""
    shards = len(self._servers)

    def parts(snapshot: pathlib.Path) -> list[pathlib.Path]:
      return [
        replay_parts.in_snapshot(snapshot, shard, shards)
        for shard in range(shards)
      ]

    def last() -> list[pathlib.Path] | None:
      newest = self._snapshots.newest()
      return newest and parts(newest.path)

    if shards == 1:
      return table_snapshot.Saving(
        self._servers[0], self._folder.replay_saving, parts(path)[0]
      )
    return shards_snapshot.ShardsSaving(
      [
        shards_snapshot.Part(
          server,
          replay_parts.on_its_way(self._folder, shard, shards),
          part,
          functools.partial(self._is_up, shard),
        )
        for shard, (server, part) in enumerate(
          zip(self._servers, parts(path), strict=True)
        )
      ],
      last,
    )


def _best_return(newest: snapshots_lib.Snapshot | None) -> float | None:
  """Best return that the run had when its newest snapshot was written."""
  if newest is None:
    return None
  return run_counters.RunCounters.read(newest.path).best_eval_return
