"""Shards snapshot: saves the tables of several servers together.

For a server that is down, the snapshot gets the tables that were saved before,
if there are any.
"""

import os
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

import reverb
from absl import logging

from slipway.replay.tables import table_snapshot

_CHECK_S = 0.1  # between two checks whether a server is still up


class ShardFolder(NamedTuple):
  """One server, and the folder that its tables are saved to.

  Attributes:
    address: address of the server, on this machine.
    root: the `saving_dir` of its TrajectoryManager.
    path: folder to make, on the same file system as `root`.
    is_up: returns whether the server is up.
  """

  address: str
  root: pathlib.Path
  path: pathlib.Path
  is_up: Callable[[], bool]


class ShardsSaving:
  """Saves the tables of several servers; used like `table_snapshot.Saving`.

  It never waits for a server that is down.
  """

  def __init__(
    self,
    folders: Sequence[ShardFolder],
    last: Callable[[], Sequence[pathlib.Path] | None],
  ):
    """Starts to save the tables of all servers that are up.

    Args:
      folders: one per server; the parent of their paths is made.
      last: returns the same folders in the last snapshot, or None if there is
        none; called if a server is down.
    """
    self._folders, self._last = folders, last
    for folder in folders:
      folder.path.parent.mkdir(exist_ok=True)
    self._savings = [
      table_snapshot.Saving(folder.address, folder.root, folder.path)
      if folder.is_up()
      else None
      for folder in folders
    ]

  def wait_copied(self, timeout_s: float) -> bool:
    """Waits until no insert or sample changes the snapshot any more.

    Args:
      timeout_s: seconds for each server.
    """
    return all(
      saving is None or saving.wait_copied(timeout_s) or not folder.is_up()
      for folder, saving in zip(self._folders, self._savings, strict=True)
    )

  def finish(self) -> None:
    """Waits until the tables of all shards are written.

    Raises:
      OSError: the disk rejects the files.
    """
    for shard, folder in enumerate(self._folders):
      if not self._is_saved(shard):
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

  def _is_saved(self, shard: int) -> bool:
    folder, saving = self._folders[shard], self._savings[shard]
    if saving is None:
      return False
    # A call of a server that is down may block for ever.
    while saving.is_alive() and folder.is_up():
      saving.join(_CHECK_S)
    if saving.is_alive():
      return False
    try:
      saving.finish()
    except (RuntimeError, OSError, reverb.errors.ReverbError) as error:
      message = " ".join(str(error).split())
      logging.warning("replay shard %d was not saved: %s", shard, message)
      return False
    return True
