"""The tables of several servers, saved together; one that is gone is left out.

What it had when it was last saved takes its place, if there is any.
"""

import os
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

import reverb
from absl import logging

from slipway.replay.tables import table_snapshot

_LOOK_S = 0.1  # between two looks whether a server is still there


class Part(NamedTuple):
  """What is saved of one server.

  Attributes:
    address: of the server, of this machine.
    root: the `saving_dir` of its TrajectoryManager.
    path: folder to be made, of the same file system as `root`.
    is_up: says whether the server is there.
  """

  address: str
  root: pathlib.Path
  path: pathlib.Path
  is_up: Callable[[], bool]


class ShardsSaving:
  """Checkpoints of several servers on their way to the disk.

  Goes like `table_snapshot.Saving`, and waits for none that is gone.
  """

  def __init__(
    self,
    parts: Sequence[Part],
    last: Callable[[], Sequence[pathlib.Path] | None],
  ):
    """Starts those of all servers that are there.

    Args:
      parts: one a server; the folder that their paths are in is made.
      last: the same folders in the snapshot before; None: there is none. Asked
        where a server is gone.
    """
    self._parts, self._last = parts, last
    for part in parts:
      part.path.parent.mkdir(exist_ok=True)
    self._savings = [
      table_snapshot.Saving(part.address, part.root, part.path)
      if part.is_up()
      else None
      for part in parts
    ]

  def wait_copied(self, timeout_s: float) -> bool:
    """Waits until what is saved no longer changes with any table.

    Args:
      timeout_s: seconds for each server.
    """
    return all(
      saving is None or saving.wait_copied(timeout_s) or not part.is_up()
      for part, saving in zip(self._parts, self._savings, strict=True)
    )

  def finish(self) -> None:
    """Waits until all is written, or what takes its place.

    Raises:
      OSError: the disk refuses.
    """
    for shard, part in enumerate(self._parts):
      if not self._is_saved(shard):
        last = self._last()
        known = last is not None and last[shard].exists()
        logging.warning(
          "replay shard %d is gone, and in this snapshot %s",
          shard,
          "as it was in the last one" if known else "it is missing",
        )
        if last is not None and known:
          shutil.rmtree(part.path, ignore_errors=True)
          shutil.copytree(last[shard], part.path, copy_function=os.link)

  def _is_saved(self, shard: int) -> bool:
    part, saving = self._parts[shard], self._savings[shard]
    if saving is None:
      return False
    # One that asks a server that is gone may wait for ever.
    while saving.is_alive() and part.is_up():
      saving.join(_LOOK_S)
    if saving.is_alive():
      return False
    try:
      saving.finish()
    except (RuntimeError, OSError, reverb.errors.ReverbError) as error:
      said = " ".join(str(error).split())
      logging.warning("replay shard %d was not saved: %s", shard, said)
      return False
    return True
