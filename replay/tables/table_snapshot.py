"""Reverb's checkpoints: saved while learning goes on, and fitted to a config.

Reverb lists the items of its tables under their lock, and then compresses and
writes them for many times as long without it. Nobody is told when the lock is
given back, but who asks for a table's counts meanwhile is answered only then;
and the file of the items is opened soon after.

What Reverb restores, it restores as it was: limiter, size, exponent and
signature of the checkpoint replace, without a word, those of the program.
"""

import math
import os
import pathlib
import shutil
import threading
import time
from collections.abc import Sequence

import reverb
import tensorflow as tf
from reverb.cc import schema_pb2
from reverb.cc.checkpointing import checkpoint_pb2

_TABLES, _ITEMS, _CHUNKS = (
  f"{name}.tfrecord" for name in ("tables", "items", "chunks")
)
_DONE = "DONE"  # Reverb reads no folder without it
_COMPRESSION = "ZLIB"
_LOOK_PERIOD_S = 0.005
# A server that takes so long for an answer was listing a table. It begins with
# that microseconds after it has made its folder, and nobody is asked before.
_HELD_S = 0.05
_ANSWER_S = 5


class Saving(threading.Thread):
  """One checkpoint on its way to the disk.

  ```python
  saving = table_snapshot.Saving(address, root, path)
  while not saving.wait_copied(timeout_s=0.1):  # the tables are locked
    ...
  learn()  # nothing that happens now is in the checkpoint
  saving.finish()
  ```
  """

  def __init__(self, address: str, root: pathlib.Path, path: pathlib.Path):
    """Starts at once; one at a time for each server.

    Args:
      address: of the server, of this machine.
      root: the `saving_dir` of its TrajectoryManager.
      path: folder to be made, of the same file system as `root`.
    """
    super().__init__(name="table-saving", daemon=True)
    self._client = reverb.Client(address)
    self._root, self._path = root, path
    # A saving that failed half-way would look like the beginning of this one.
    empty(root)
    self._error: Exception | None = None
    self.start()

  def run(self) -> None:
    try:
      os.rename(self._client.checkpoint(), self._path)
    except Exception as error:  # Handed to the owner by `finish`.
      self._error = error

  def wait_copied(self, timeout_s: float) -> bool:
    """Waits until what is saved no longer changes with the tables.

    Returns:
      False: it is not so yet. True also where saving has failed.
    """
    end_s = time.monotonic() + timeout_s
    while self.is_alive() and not self._is_copied():
      if time.monotonic() >= end_s:
        return False
      time.sleep(_LOOK_PERIOD_S)
    return True

  def _is_copied(self) -> bool:
    if any(self._root.glob(f"*/{_ITEMS}")):
      return True
    if not any(self._root.iterdir()):
      return False  # nor begun
    asked_s = time.monotonic()
    try:
      self._client.server_info(timeout=_ANSWER_S)
    except (RuntimeError, reverb.errors.ReverbError):
      return False
    return time.monotonic() - asked_s > _HELD_S

  def finish(self) -> None:
    """Waits until all is written.

    Raises:
      RuntimeError: the server could not save, or is gone.
      OSError: the checkpoint could not be moved.
    """
    self.join()
    if self._error is not None:
      raise self._error


def fit(
  saved: pathlib.Path, fitted: pathlib.Path, tables: Sequence[reverb.Table]
) -> None:
  """Makes of a checkpoint one that restores to tables as they are asked for.

  Items, priorities and counts stay. Limiter, size, sampler and remover become
  those of `tables`. Where a limiter has changed so that the counts would hold
  a side back for what was right before, the samples are counted as the
  nearest number that the new limiter allows: neither side has to catch up. Of
  a queue, all items that wait can be sampled; only inserts may have to wait.

  Args:
    saved: folder of the checkpoint; is left as it is.
    fitted: folder to be made, of the same file system: the items are links.
    tables: as the config asks for them, empty.

  Raises:
    ValueError: the items cannot live in the tables; one line that says why.
  """
  wanted = {table.name: _info(table) for table in tables}
  try:
    records = _read(saved / _TABLES)
  except (tf.errors.OpError, ValueError) as error:
    raise ValueError(
      f"{str(saved)!r} is no checkpoint of tables ({type(error).__name__}), so "
      "nothing can be restored from it: resume from another snapshot"
    ) from error
  if {record.table_name for record in records} != wanted.keys():
    raise ValueError(
      f"the checkpoint has the tables {[r.table_name for r in records]}, but "
      f"the config makes {sorted(wanted)}: resume with the config it was "
      "saved with, or start anew"
    )
  for record in records:
    _fit(record, wanted[record.table_name])
  fitted.mkdir()
  for name in (_ITEMS, _CHUNKS):
    os.link(saved / name, fitted / name)
  options = tf.io.TFRecordOptions(compression_type=_COMPRESSION)
  with tf.io.TFRecordWriter(str(fitted / _TABLES), options) as writer:
    for record in records:
      writer.write(record.SerializeToString())
  (fitted / _DONE).touch()


def empty(folder: pathlib.Path) -> None:
  """Removes what a server that was killed has left, and makes the folder."""
  shutil.rmtree(folder, ignore_errors=True)
  folder.mkdir(parents=True)


def _info(table: reverb.Table) -> schema_pb2.TableInfo:
  return schema_pb2.TableInfo.FromString(table.internal_table.info())


def _read(path: pathlib.Path) -> list[checkpoint_pb2.PriorityTableCheckpoint]:
  dataset = tf.data.TFRecordDataset(str(path), _COMPRESSION)
  return [
    checkpoint_pb2.PriorityTableCheckpoint.FromString(record)
    for record in dataset.as_numpy_iterator()
  ]


def _fit(
  record: checkpoint_pb2.PriorityTableCheckpoint, wanted: schema_pb2.TableInfo
) -> None:
  """Gives the record of a table the settings that are wanted."""
  name = record.table_name
  if record.signature != wanted.signature:
    raise ValueError(
      f"the items of table {name!r} were saved with another layout than the "
      "config's, so they would be misread: resume with the environment and "
      "the algorithm they were saved with, or start anew"
    )
  size = record.rate_limiter.insert_count - record.rate_limiter.delete_count
  if size > wanted.max_size:
    raise ValueError(
      f"table {name!r} was saved with {size:,} items, but the config's "
      f"capacity is {wanted.max_size:,}: raise it to {size:,} or more, or "
      "start anew"
    )
  record.max_size = wanted.max_size
  record.max_times_sampled = wanted.max_times_sampled
  record.sampler.CopyFrom(wanted.sampler_options)
  record.remover.CopyFrom(wanted.remover_options)
  limiter, asked = record.rate_limiter, wanted.rate_limiter_info
  for field in (
    "samples_per_insert",
    "min_diff",
    "max_diff",
    "min_size_to_sample",
  ):
    setattr(limiter, field, getattr(asked, field))
  if wanted.max_times_sampled == 1:
    # A queue has a sample for each item that waits, also where its capacity is
    # now smaller: otherwise the newest items could never be sampled.
    limiter.sample_count = limiter.delete_count
    return
  earned = limiter.insert_count * limiter.samples_per_insert
  limiter.sample_count = max(
    0,
    min(limiter.sample_count, math.floor(earned - limiter.min_diff)),
    math.ceil(earned - limiter.max_diff),
  )
