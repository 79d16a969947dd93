"""Shards snapshot: saves the tables of several replay servers together.

If a server is down, its tables are copied from the last snapshot, if there is
one.
"""

import os
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

import reverb
from absl import logging

from slipway.replay.tables import table_snapshot

# Seconds between two checks whether a server that saves is still up.
_CHECK_S = 0.1


class ShardFolder(NamedTuple):
  """A replay server, and the folder that its tables are saved to.

  Attributes:
    address: address of the server, on this machine.
    saving_dir: the `saving_dir` of the server's TrajectoryManager.
    path: new folder for the tables, on the same file system as `saving_dir`.
    is_up: function that returns whether the server is up.
  """

  address: str
  saving_dir: pathlib.Path
  path: pathlib.Path
  is_up: Callable[[], bool]


class ShardsSaver:
  """Snapshot of the tables of several servers, saved in parallel.

  The methods are those of `table_snapshot.TableSaver`. None of them waits for a
  server that is down.
  """

  def __init__(
    self,
    folders: Sequence[ShardFolder],
    last: Callable[[], Sequence[pathlib.Path] | None],
  ):
    """Starts to save the tables of all servers that are up.

    Args:
      folders: a folder per server; the parents of their paths are created.
      last: returns the paths of the servers' folders in the last snapshot, or
        None if there is none. `finish` calls it if a server is down.
    """
    self._folders, self._last = folders, last
    for folder in folders:
      folder.path.parent.mkdir(exist_ok=True)
    self._savers = [
      table_snapshot.TableSaver(folder.address, folder.saving_dir, folder.path)
      if folder.is_up()
      else None
      for folder in folders
    ]

  def wait_copied(self, timeout_s: float) -> bool:
    """Waits until the snapshot's content is fixed.

    Inserts and samples then no longer change it.

    Args:
      timeout_s: seconds to wait at most for each server.

    Returns:
      False after the timeout of a server that is up.
    """
    return all(
      saver is None or saver.wait_copied(timeout_s) or not folder.is_up()
      for folder, saver in zip(self._folders, self._savers, strict=True)
    )

  def finish(self) -> None:
    """Waits until the tables of all servers are written.

    Logs a warning for each server that is down or has failed to save. Links the
    files of such a server from the last snapshot, if there is one.

    Raises:
      OSError: the files of the last snapshot cannot be linked.
    """
    for shard, folder in enumerate(self._folders):
      if not self._wait_until_saved(shard):
        last = self._last()
        known = last is not None and last[shard].exists()
        logging.warning(
          "replay shard %d is down: this snapshot has %s",
          shard,
          "its tables of the last one" if known else "none of its tables",
        )
        if last is not None and known:
          shutil.rmtree(folder.path, ignore_errors=True)
          shutil.copytree(last[shard], folder.path, copy_function=os.link)

  def _wait_until_saved(self, shard: int) -> bool:
    """Waits until a shard's tables are written; False: it is down or failed."""
    folder, saver = self._folders[shard], self._savers[shard]
    if saver is None:
      return False
    # A call of a server that is down may block for ever.
    while not saver.wait_saved(_CHECK_S):
      if not folder.is_up():
        return False
    try:
      saver.finish()
    except (RuntimeError, OSError, reverb.errors.ReverbError) as error:
      message = " ".join(str(error).split())
      logging.warning("replay shard %d was not saved: %s", shard, message)
      return False
    return True
