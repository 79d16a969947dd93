"""Uploads: copies of a run's snapshots at a URL, for other machines."""

import contextlib
import errno
import pathlib
import threading
import time
from collections.abc import Callable, Iterator

import fsspec
from absl import logging
from fsspec.implementations import local

from slipway.launch.runs import error_text, manifest, run_folder

# Characters that fsspec expands as patterns where it copies and removes files.
_PATTERN_CHARACTERS = "*?["
# Errors of a local disk that has no space left for a snapshot.
_FULL = (errno.ENOSPC, errno.EDQUOT)
# Errors about a single snapshot.
_DAMAGED = (ValueError, FileNotFoundError)
_POLL_S = 0.1  # seconds between two checks whether time is left for uploads
# Seconds to wait before each repetition of the last snapshot's failed upload.
_RETRY_WAITS_S = (1.0, 2.0, 4.0, 8.0)


class UnreadableError(OSError):
  """Raised if a URL, which may have snapshots, can't be read."""


class Uploads:
  """Copies a run's snapshots to a URL of fsspec, and back for a resume.

  `<url>/<run>/` has config.json, spaces.json and the snapshots. Snapshots are
  copied in a background thread. A failed upload is logged and counted, and is
  tried again when the next snapshot is added.

  Attributes:
    last: number of the newest snapshot that was uploaded, or None.
    failures: number of failed uploads.
  """

  def __init__(self, folder: run_folder.RunFolder, url: str, keep: int):
    """Makes the uploads of a run, without access to the URL.

    Args:
      url: URL of fsspec, or an absolute path, of the folder of all runs.
      keep: number of the newest snapshots to keep at the URL, in addition to
        the best one.

    Raises:
      ValueError: fsspec does not support the URL, or its package is missing.
    """
    self._folder, self._keep = folder, keep
    self._field = f"config.snapshot.url={url!r}"
    with self._rejecting("used"):
      if found := [x for x in _PATTERN_CHARACTERS if x in url]:
        raise ValueError(
          f"it has {' and '.join(map(repr, found))}, which fsspec takes for a "
          "pattern of several paths"
        )
      self._files, root = fsspec.url_to_fs(f"{url.rstrip('/')}/{folder.name}")
    self._root = str(root).rstrip("/")
    self._snapshots = f"{self._root}/snapshots"
    self._lock = threading.Lock()  # held to start the thread, and as it ends
    self._thread: threading.Thread | None = None
    self._pending: set[int] = set()  # snapshots to upload
    self._copying: int | None = None  # the snapshot that is being uploaded
    self.last: int | None = None
    self.failures = 0

  def check(self, may_exist: bool) -> None:
    """Checks that the URL can be written, and belongs to no other run.

    Args:
      may_exist: whether the URL may already have a run of this name.

    Raises:
      ValueError: the URL overlaps the run's folder, cannot be written, or has a
        run of this name although it may not.
    """
    own, root = self._folder.path.resolve(), pathlib.Path(self._root).resolve()
    is_local = isinstance(self._files, local.LocalFileSystem)
    if is_local and (root.is_relative_to(own) or own.is_relative_to(root)):
      raise ValueError(
        f"{self._field} keeps the run's copies in {self._folder.name!r} below "
        f"it, which overlaps the run's own folder {str(self._folder.path)!r}: "
        "give a URL outside of the folder of runs"
      )
    with self._rejecting("written"):
      self._files.makedirs(self._root, exist_ok=True)
      self._files.pipe_file(f"{self._root}/.probe", b"probe")
      self._files.rm_file(f"{self._root}/.probe")
      config = f"{self._root}/{run_folder.CONFIG}"
      numbers = manifest.list_numbers(self._files, self._snapshots)
      exists = numbers or self._files.exists(config)
    if exists and not may_exist:
      raise ValueError(
        f"{self._field} has a run {self._folder.name!r} already, whose "
        "snapshots the new run would mistake for its own: choose another run "
        "name, or allow overwriting, which deletes them"
      )

  def publish_config(self, clear: bool) -> None:
    """Copies config.json and spaces.json to the URL.

    Args:
      clear: whether to delete an older run of this name first. Other files are
        kept: the folder may have files of the user's own.

    Raises:
      OSError: the URL cannot be written.
    """
    if clear:
      for number in manifest.list_numbers(self._files, self._snapshots):
        self._files.rm(f"{self._snapshots}/{number:06d}", recursive=True)
    self._files.makedirs(self._root, exist_ok=True)
    for path in (self._folder.config, self._folder.spaces):
      target = f"{self._root}/{path.name}"
      if path.exists():
        self._files.put_file(str(path), target)
      elif clear and self._files.exists(target):
        self._files.rm_file(target)

  def list_numbers(self) -> list[int]:
    """Returns the numbers of the snapshots at the URL, the newest first.

    Raises:
      UnreadableError: the URL can't be read.
    """
    with self._reading():
      return manifest.list_numbers(self._files, self._snapshots)

  def fetch(self, number: int, target: pathlib.Path) -> None:
    """Copies a snapshot from the URL to an empty folder.

    Raises:
      ValueError: the snapshot at the URL is incomplete.
      UnreadableError: the URL can't be read.
      OSError: the disk is full.
    """
    source = f"{self._snapshots}/{number:06d}"
    with self._reading():
      manifest.read(self._files, source)
      self._files.get(f"{source}/", f"{target.absolute()}/", recursive=True)

  def add(self, numbers: set[int]) -> None:
    """Begins to upload complete local snapshots, and returns at once.

    Uploads of other snapshots are left out, if they have not begun.

    Args:
      numbers: numbers of the newest and of the best snapshot.
    """
    self._pending = set(numbers)
    self._start()

  def in_use(self) -> set[int]:
    """Returns the numbers of the local snapshots to keep for their uploads."""
    return self._pending | ({self._copying} if self._copying else set())

  def flush(self, get_rest_s: Callable[[], float]) -> None:
    """Waits until all uploads are done, or logs a warning.

    Failed uploads are repeated a few times.

    Args:
      get_rest_s: function that returns the seconds that are left. A stop signal
        may shorten them meanwhile.
    """
    for wait_s in (0.0, *_RETRY_WAITS_S):
      retry_s = time.monotonic() + wait_s
      while time.monotonic() < retry_s and get_rest_s() > 0:
        time.sleep(_POLL_S)
      thread = self._start()
      while thread and thread.is_alive() and get_rest_s() > 0:
        thread.join(_POLL_S)
      if not self.in_use():
        return
    logging.warning(
      "the last snapshot was not uploaded; other machines resume from an "
      "earlier one, if there is one"
    )

  def _start(self) -> threading.Thread | None:
    """Starts the thread unless it is running; returns it."""
    with self._lock:
      if self._pending and self._thread is None:
        self._thread = threading.Thread(
          target=self._run, name="upload", daemon=True
        )
        self._thread.start()
      return self._thread

  def _run(self) -> None:
    """Uploads each pending snapshot once; the thread's function."""
    failed = set()
    while True:
      with self._lock:
        number = self._copying = min(self._pending - failed, default=None)
        if number is None:
          self._thread = None
          return
      try:
        self._upload(number)
        self._pending.discard(number)
        self.last = max(number, self.last or 0)
      except Exception as error:  # the run continues without this upload
        self.failures += 1
        failed.add(number)
        text = error_text.one_line(error)
        logging.error("snapshot %d could not be uploaded: %s", number, text)

  def _upload(self, number: int) -> None:
    """Copies a snapshot unless the URL has it, and removes old ones there."""
    source = f"{self._folder.snapshots.absolute()}/{number:06d}"
    target = f"{self._snapshots}/{number:06d}"
    content = manifest.read(fsspec.filesystem("file"), source)
    with contextlib.suppress(ValueError):  # missing or incomplete there
      if manifest.read(self._files, target) == content:
        return
    if self._files.exists(target):
      self._files.rm(target, recursive=True)
    self._files.put(f"{source}/", f"{target}/", recursive=True)
    logging.info("snapshot %d is uploaded", number)
    others = (number, content.best)
    manifest.prune(self._files, self._snapshots, self._keep, others)

  @contextlib.contextmanager
  def _reading(self) -> Iterator[None]:
    """Converts errors of the block, of any package, to an UnreadableError."""
    try:
      yield
    except Exception as error:
      if isinstance(error, _DAMAGED) or getattr(error, "errno", 0) in _FULL:
        raise
      text = error_text.one_line(error)
      raise UnreadableError(f"{self._field} cannot be read ({text})") from error

  @contextlib.contextmanager
  def _rejecting(self, use: str) -> Iterator[None]:
    """Converts any error of the block to a ValueError: it can't be `use`d."""
    try:
      yield
    except Exception as error:
      raise ValueError(
        f"{self._field} cannot be {use} ({error_text.one_line(error)}), so no "
        "snapshot would be kept there: make it usable (install its package, "
        "grant access), or give another URL"
      ) from error
