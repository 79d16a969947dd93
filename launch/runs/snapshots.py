"""Snapshots: numbered folders of a run, of which only whole ones are used."""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import typing
from collections.abc import Callable, Collection, Iterator

from absl import logging

from launch.runs import manifest

_BEST = "best"  # a link to the folder that is kept for it
_NUMBERED = re.compile(r"\d{6,}")


class Snapshot(typing.NamedTuple):
  """One whole snapshot."""

  path: pathlib.Path
  number: int  # counts from 1, in the order of writing
  step: int  # that its writer gave


def newest_of(folder: pathlib.Path) -> Snapshot | None:
  """The newest whole snapshot of this machine; None: there is none.

  Args:
    folder: of a `Snapshots`.
  """
  return Snapshots(folder, keep=1).newest()


class Snapshots:
  """A folder of snapshots, written by one process at a time.

  A snapshot is written into a hidden folder, brought to the disk, given a
  manifest of all its files, and renamed: whatever ends its writer, there is
  either all of it or nothing.

  ```python
  snapshots = Snapshots(folder, keep=2)
  with snapshots.writing(step=1_000) as path:
    (path / 'counters.json').write_text(...)
  snapshots.mark_best()
  snapshot = snapshots.newest()
  ```
  """

  def __init__(
    self,
    folder: str | os.PathLike[str],
    keep: int,
    in_use: Callable[[], Collection[int]] = tuple,
  ):
    """Makes the folder, if it is missing.

    Args:
      folder: of this class alone.
      keep: how many of the newest stay, beside the best one.
      in_use: tells the numbers of those that somebody still reads, which stay
        until the next one is written.

    Raises:
      ValueError: `keep` is below 1.
    """
    if keep < 1:
      raise ValueError(
        f"keep is {keep}, so each snapshot would be deleted as soon as it is "
        "written: keep 1 or more"
      )
    self._folder = pathlib.Path(folder)
    self._folder.mkdir(parents=True, exist_ok=True)
    self._keep = keep
    self._in_use = in_use
    self._written: Snapshot | None = None

  @property
  def written(self) -> Snapshot | None:
    """What this object has written last; None: nothing yet."""
    return self._written

  @contextlib.contextmanager
  def writing(self, step: int) -> Iterator[pathlib.Path]:
    """Yields a folder to fill, which becomes the newest snapshot.

    If its body raises, nothing is left of it. Older snapshots go only once it
    stands.

    Args:
      step: kept with the snapshot; of the run, not of this class: a resumed
        run may come past the same step again.

    Raises:
      RuntimeError: another writer is at work in the folder.
      OSError: the disk refuses; the older snapshots are kept.
    """
    with self._locked():
      self._remove_leftovers()
      number = max(self._numbers(), default=0) + 1
      hidden = self._folder / f".{number:06d}"
      hidden.mkdir()
      try:
        yield hidden
        manifest.write(hidden, step)
        os.rename(hidden, self._path(number))
      except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
      manifest.sync(self._folder)
      self._written = Snapshot(self._path(number), number, step)
      self._prune()

  def receive(
    self, number: int, fill: Callable[[pathlib.Path], None]
  ) -> Snapshot:
    """Takes in a snapshot that was written elsewhere, under its number there.

    Waits for another writer, who may have taken in the same one: then that is
    returned.

    Args:
      number: of the snapshot, from 1.
      fill: writes all of its files to the folder it is given, manifest too.

    Raises:
      ValueError: what `fill` wrote is not what the manifest says.
      OSError: the disk refuses.
    """
    with self._locked(wait=True):
      path = self._path(number)
      if path.exists() and (there := self._whole(number)) is not None:
        return there
      self._remove_leftovers()
      hidden = self._folder / f".{number:06d}"
      hidden.mkdir()
      try:
        fill(hidden)
        step = manifest.check(hidden)
        manifest.sync_below(hidden)
        manifest.sync(hidden)
        if path.exists():  # a damaged one
          shutil.rmtree(path)
        os.rename(hidden, path)
      except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise
      manifest.sync(self._folder)
      return Snapshot(path, number, step)

  def newest(self) -> Snapshot | None:
    """The newest whole snapshot; None: there is none.

    What is damaged is passed over, which the log says in a line each.
    """
    for number in sorted(self._numbers(), reverse=True):
      if (snapshot := self._whole(number)) is not None:
        return snapshot
    return None

  def best(self) -> Snapshot | None:
    """The snapshot last marked as the best; None: none is, or it is damaged."""
    number = self._best_number()
    return None if number is None else self._whole(number)

  def mark_best(self) -> None:
    """Keeps the newest snapshot, until another one is marked.

    Raises:
      ValueError: there is no snapshot.
    """
    newest = self.newest()
    if newest is None:
      raise ValueError(
        f"{self._folder} holds no whole snapshot, so none can be kept as the "
        "best: write one first"
      )
    beside = self._folder / f".{_BEST}"
    beside.unlink(missing_ok=True)
    beside.symlink_to(newest.path.name)
    os.replace(beside, self._folder / _BEST)
    manifest.sync(self._folder)

  def _path(self, number: int) -> pathlib.Path:
    return self._folder / f"{number:06d}"

  def _numbers(self) -> list[int]:
    names = (path.name for path in self._folder.iterdir())
    return [int(name) for name in names if _NUMBERED.fullmatch(name)]

  def _best_number(self) -> int | None:
    try:
      return int(os.readlink(self._folder / _BEST))
    except OSError:
      return None

  def _whole(self, number: int) -> Snapshot | None:
    path = self._path(number)
    try:
      return Snapshot(path, number, manifest.check(path))
    except (OSError, ValueError) as error:
      logging.warning("snapshot %s is damaged and not used: %s", path, error)
      return None

  @contextlib.contextmanager
  def _locked(self, wait: bool = False) -> Iterator[None]:
    # The kernel drops the lock with the process, however it ends.
    descriptor = os.open(self._folder, os.O_RDONLY)
    try:
      try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
      except BlockingIOError as error:
        raise RuntimeError(
          f"{self._folder} is being written by somebody else, so no snapshot "
          "can be added now: wait for the one that is under way"
        ) from error
      yield
    finally:
      os.close(descriptor)

  def _remove_leftovers(self) -> None:
    """Removes what writers that were killed have left behind."""
    for path in self._folder.glob(".*"):
      if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)

  def _prune(self) -> None:
    """Removes what is older than the newest ones; the best one stays."""
    numbers = sorted(self._numbers(), reverse=True)
    # A damaged one among them does not take the place of a whole one.
    whole = [n for n in numbers if manifest.has_sizes(self._path(n))]
    oldest = whole[: self._keep][-1]
    stay = {self._best_number(), *self._in_use()}
    for number in numbers:
      if number < oldest and number not in stay:
        # Renamed first: a folder that is half deleted would be a damaged one.
        hidden = self._folder / f".{number:06d}"
        os.rename(self._path(number), hidden)
        shutil.rmtree(hidden)
