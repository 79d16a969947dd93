"""Slot: trains a run of a sweep, whole, on any machine of a Ray cluster.

The sweep (`slipway.launch.sweeps.slots`) starts a slot for each run, as a Ray
actor, and polls it. The run has a temporary folder on the slot's machine, from
which everything is sent to the sweep's folder.
"""

import contextlib
import io
import pathlib
import tarfile
import tempfile
import time
import typing
from collections.abc import Mapping

from slipway.launch.processes import tmpfs_directory
from slipway.launch.runs import config_file, run_folder, user_modules
from slipway.launch.sweeps import processes, sweep_folder

# Name of the file with the run's config.
_CONFIG = "config.json"
_POLL_S = 0.2  # seconds between two checks whether a killed run has ended
# Most bytes of one part of a folder: a part arrives within seconds.
PART_BYTES = 2**23


class SlotTask(typing.NamedTuple):
  """Description of the run that a slot has to train.

  Attributes:
    name: name of the run's folder.
    config: the whole config, as the text of a config.json, with the run's seed.
    seed: the run's seed.
    archive: the run's folder from `pack`, if the run continues from a snapshot,
      which may be at the config's `snapshot.url` only; else None.
  """

  name: str
  config: str
  seed: int
  archive: bytes | None


class SlotReport(typing.NamedTuple):
  """A slot's reply to a poll.

  Attributes:
    status: exit status of `slipway train`, or None while it runs.
    log: the bytes that it has printed since the last report.
    files: contents of the result files that have changed since then, by name.
  """

  status: int | None
  log: bytes
  files: Mapping[str, bytes]


class Slot:
  """Trains one run on this machine; the methods are called remotely."""

  def __init__(self, task: SlotTask):
    """Keeps the task, without starting it.

    Args:
      task: the run to train.
    """
    self._task = task
    self._resources = contextlib.ExitStack()
    self._run: sweep_folder.SweepRun | None = None
    self._process: processes.TrainProcess | None = None
    self._archive = b""  # the packed folder, once it is read
    self._log_bytes = 0  # reported so far
    self._sent: dict[str, tuple[int, int]] = {}  # time and size, by name

  def poll(self) -> SlotReport:
    """Starts the run at the first call, and returns what is new.

    Raises:
      OSError: the machine's disk can't be written.
    """
    if self._process is None:
      self._start()
    assert self._process is not None and self._run is not None
    status = self._process.poll()  # before the files, which are then complete
    with self._run.log.open("rb") as file:
      file.seek(self._log_bytes)
      log = file.read()
    self._log_bytes += len(log)
    return SlotReport(status, log, self._read_changed())

  def stop(self) -> None:
    """Interrupts the run: the first call lets it save itself, the second kills.

    To be called after the first `poll`.
    """
    if self._process is not None:  # else the start has failed
      self._process.stop()

  def read_folder(self, offset: int) -> bytes:
    """Returns a part of the run's whole folder, as packed by `pack`.

    Args:
      offset: index of the part's first byte.

    Returns:
      At most `PART_BYTES`; none at the end.
    """
    assert self._run is not None
    if not self._archive:
      self._archive = pack(self._run.folder.path)
    return self._archive[offset : offset + PART_BYTES]

  def close(self) -> None:
    """Kills the run if it has not ended, and removes the temporary folder."""
    while self._process is not None and self._process.poll() is None:
      self._process.stop()
      time.sleep(_POLL_S)
    self._resources.close()

  def _start(self) -> None:
    """Makes the run's folder, or unpacks it, and starts `slipway train`."""
    # Python makes all temporary files in there, so it can't be in memory.
    parent = pathlib.Path(
      self._resources.enter_context(
        tmpfs_directory.create(tempfile.gettempdir())
      )
    )
    task = self._task
    folder = parent / task.name
    if task.archive is not None:
      unpack(task.archive, folder)
      # The modules that Ray has sent, in place of the sweep's machine's.
      user_modules.write(
        run_folder.RunFolder(folder), config_file.from_json(task.config)
      )
    config = parent / _CONFIG
    config.write_text(task.config, "utf-8")
    self._run = sweep_folder.SweepRun(
      0, task.seed, run_folder.RunFolder(folder), parent / f"{task.name}.log"
    )
    self._process = processes.TrainProcess(
      self._run,
      [f"--config={config}"],
      setting={},
      resumes=task.archive is not None,
    )

  def _read_changed(self) -> dict[str, bytes]:
    """Returns the result files that have changed since the last call."""
    assert self._run is not None
    found = {}
    folder = self._run.folder
    for path in (folder.curves_csv, folder.summary):
      with contextlib.suppress(FileNotFoundError):
        stat = path.stat()
        version = (stat.st_mtime_ns, stat.st_size)
        if self._sent.get(path.name) != version:
          found[path.name] = path.read_bytes()
          self._sent[path.name] = version
    return found


def pack(folder: pathlib.Path) -> bytes:
  """Returns all files of a folder as the bytes of a tar archive."""
  archive = io.BytesIO()
  with tarfile.open(fileobj=archive, mode="w") as tar:
    tar.add(folder, arcname=".", filter=_without_sockets)
  return archive.getvalue()


def unpack(archive: bytes, folder: pathlib.Path) -> None:
  """Writes the files of an archive to a folder, which is made if missing.

  Args:
    archive: bytes from `pack`.
    folder: path of the folder; files of the same names are replaced.

  Raises:
    OSError: a file can't be written.
    tarfile.TarError: the archive is damaged.
  """
  folder.mkdir(mode=0o700, parents=True, exist_ok=True)
  with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
    tar.extractall(folder)


def _without_sockets(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
  """Returns a file's or folder's entry of an archive; None for others."""
  return member if member.isfile() or member.isdir() else None
