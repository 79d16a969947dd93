"""Table snapshot: saves Reverb's tables during training, and restores them.

Reverb lists the items of its tables while it holds their lock. Then it releases
the lock, and compresses and writes the items, which takes many times as long.
Reverb has no call that shows when the lock is released. But it replies to a
request for a table's counts only after the release, and it opens the file of
the items soon after.

When Reverb restores a checkpoint, the limiter, size, exponent and signature of
the checkpoint replace those of the program, without a warning. So
`copy_with_settings` replaces them in a copy of the checkpoint.
"""

import math
import os
import pathlib
import shutil
import time
from collections.abc import Sequence

import reverb
import tensorflow as tf
from reverb.cc import schema_pb2
from reverb.cc.checkpointing import checkpoint_pb2

from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.transport import blocking_call

# Names of the files in a checkpoint of Reverb.
TABLES, ITEMS, CHUNKS = (
  f"{name}.tfrecord" for name in ("tables", "items", "chunks")
)
# Name of the empty file that marks a complete checkpoint; Reverb reads no
# checkpoint without it.
_DONE = "DONE"
# Compression of the TFRecord files in a checkpoint of Reverb.
COMPRESSION = "ZLIB"
# Seconds between two checks of `TableSaver.wait_copied`.
_CHECK_PERIOD_S = 0.005
# Reply time in seconds above which a server has been listing a table, and has
# finished. The listing starts microseconds after the server has made the
# checkpoint's folder. No request is sent before the folder exists.
_LOCKED_S = 0.05
# Timeout in seconds of a request for the table's counts.
_REPLY_S = 5


class TableSaver:
  """Saver of one Reverb server's tables, as a checkpoint, in a thread.

  ```python
  saver = table_snapshot.TableSaver(address, saving_dir, path)
  while not saver.wait_copied(timeout_s=0.1):  # the tables are locked
    ...
  learn()  # the checkpoint does not change any more
  saver.finish()
  ```
  """

  def __init__(
    self, address: str, saving_dir: pathlib.Path, path: pathlib.Path
  ):
    """Empties `saving_dir` and starts the thread; only one may run per server.

    Args:
      saving_dir: the `saving_dir` of the server's TrajectoryManager.
      path: new folder for the checkpoint, on the same file system as
        `saving_dir`.
    """
    self._client = reverb.Client(address)
    self._saving_dir, self._path = saving_dir, path
    # Files of an earlier checkpoint that failed would be taken for files of
    # this one.
    empty(saving_dir)
    self._call = blocking_call.BlockingCall(self._save)

  def wait_copied(self, timeout_s: float) -> bool:
    """Waits until the checkpoint's content is fixed.

    Inserts and samples then no longer change it.

    Returns:
      False after the timeout; True also if saving has failed.
    """
    end_s = time.monotonic() + timeout_s
    while not self._call.wait(timeout_s=0.0) and not self._is_copied():
      if time.monotonic() >= end_s:
        return False
      time.sleep(_CHECK_PERIOD_S)
    return True

  def _is_copied(self) -> bool:
    """Returns whether the server has listed all items and released the lock."""
    if any(self._saving_dir.glob(f"*/{ITEMS}")):
      return True
    if not any(self._saving_dir.iterdir()):
      return False  # not begun
    requested_s = time.monotonic()
    try:
      self._client.server_info(timeout=_REPLY_S)
    except (RuntimeError, reverb.errors.ReverbError):
      return False
    return time.monotonic() - requested_s > _LOCKED_S

  def finish(self) -> None:
    """Waits until the checkpoint is written and moved to its path.

    Raises:
      RuntimeError: the server is down, or could not write the checkpoint.
      OSError: the checkpoint could not be moved.
    """
    self._call.result()

  def _save(self) -> None:
    """Makes the server write a checkpoint, and moves it to the path."""
    try:
      os.rename(self._client.checkpoint(), self._path)
    except (RuntimeError, reverb.errors.ReverbError, OSError):
      # Where the disk was too small for it, its part must not stay there.
      empty(self._saving_dir)
      raise


def copy_with_settings(
  saved: pathlib.Path, target: pathlib.Path, tables: Sequence[reverb.Table]
) -> None:
  """Copies a checkpoint of Reverb, with the table settings of the config.

  Items, priorities and insert counts stay. Limiter, capacity, sampler and
  remover become those of `tables`. The count of samples is clipped to the
  bounds of the new limiter, so that inserts and samples are not blocked by old
  counts. A limiter without bounds may leave a ratio to the reader: if the ratio
  or the minimum size differs from the saved one, or if the table was saved
  without a ratio, the count becomes what the inserts grant, so that the reader
  has nothing to catch up. Without a ratio, the count stays. In a queue, the
  count is reset so that all items can be sampled. Tables that were not saved
  are empty, as after learning from recorded episodes.

  Args:
    target: new folder; its files of items are symbolic links into `saved`.
    tables: empty tables with the settings of the config.

  Raises:
    ValueError: `saved` is no checkpoint, or its tables are not in `tables`,
      differ in their item schema, or have more items than the capacity.
  """
  wanted = {
    table.name: schema_pb2.TableInfo.FromString(table.internal_table.info())
    for table in tables
  }
  try:
    lines = tf.data.TFRecordDataset(str(saved / TABLES), COMPRESSION)
    records = [
      checkpoint_pb2.PriorityTableCheckpoint.FromString(line)
      for line in lines.as_numpy_iterator()
    ]
  except (tf.errors.OpError, ValueError) as error:
    raise ValueError(
      f"{str(saved)!r} is not a checkpoint of tables ({type(error).__name__}), "
      "so nothing can be restored from it: resume from another snapshot"
    ) from error
  saved_names = {record.table_name for record in records}
  if not saved_names <= wanted.keys():
    raise ValueError(
      f"the checkpoint has the tables {[r.table_name for r in records]}, but "
      f"the config makes {sorted(wanted)}: resume with the config it was "
      "saved with, or start a new run"
    )
  records += [
    checkpoint_pb2.PriorityTableCheckpoint(
      table_name=name, signature=wanted[name].signature
    )
    for name in wanted.keys() - saved_names
  ]
  for record in records:
    _replace_settings(record, wanted[record.table_name])
  target.mkdir()
  for name in (ITEMS, CHUNKS):
    (target / name).symlink_to((saved / name).resolve())
  options = tf.io.TFRecordOptions(compression_type=COMPRESSION)
  with tf.io.TFRecordWriter(str(target / TABLES), options) as writer:
    for record in records:
      writer.write(record.SerializeToString())
  (target / _DONE).touch()


def empty(folder: pathlib.Path) -> None:
  """Creates a folder, or deletes all subfolders of an existing one.

  The folder itself is not replaced, as a new one could not be created on a full
  disk. Errors of deleting are ignored.
  """
  folder.mkdir(parents=True, exist_ok=True)
  for left in folder.iterdir():
    shutil.rmtree(left, ignore_errors=True)


def _replace_settings(
  record: checkpoint_pb2.PriorityTableCheckpoint, wanted: schema_pb2.TableInfo
) -> None:
  name = record.table_name
  if record.signature != wanted.signature:
    raise ValueError(
      f"the items of table {name!r} were saved with another schema than the "
      "config's, so they would be misread: resume with the environment and "
      "the algorithm they were saved with, or start a new run"
    )
  size = record.rate_limiter.insert_count - record.rate_limiter.delete_count
  if size > wanted.max_size:
    raise ValueError(
      f"table {name!r} was saved with {size:,} items, but the config's "
      f"capacity is {wanted.max_size:,} items per server, so they would not "
      "fit: raise config.replay.capacity, or start a new run"
    )
  record.max_size = wanted.max_size
  record.max_times_sampled = wanted.max_times_sampled
  record.sampler.CopyFrom(wanted.sampler_options)
  record.remover.CopyFrom(wanted.remover_options)
  limiter, target = record.rate_limiter, wanted.rate_limiter_info
  saved_ratio = (limiter.samples_per_insert, limiter.min_size_to_sample)
  for field in (
    "samples_per_insert",
    "min_diff",
    "max_diff",
    "min_size_to_sample",
  ):
    setattr(limiter, field, getattr(target, field))
  if wanted.max_times_sampled == 1:
    # Each item in a queue can be sampled, also if the capacity is smaller now:
    # otherwise the newest items could never be sampled.
    limiter.sample_count = limiter.delete_count
    return
  ratio, min_size = limiter.samples_per_insert, limiter.min_size_to_sample
  is_bounded = limiter.max_diff < limiter_lib.UNBOUNDED
  has_ratio = ratio != limiter_lib.NO_RATIO
  if has_ratio and not is_bounded and (ratio, min_size) != saved_ratio:
    granted = limiter_lib.count_granted(limiter.insert_count, min_size, ratio)
    limiter.sample_count = max(0, math.ceil(granted))
    return
  granted = limiter.insert_count * ratio
  limiter.sample_count = max(
    0,
    min(limiter.sample_count, math.floor(granted - limiter.min_diff)),
    math.ceil(granted - limiter.max_diff),
  )
