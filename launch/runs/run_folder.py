"""RunFolder: the folder with a run's config, snapshots, curves and logs."""

import contextlib
import difflib
import os
import pathlib
import re
import shutil
import tempfile
import time
from collections.abc import Iterator

import ml_collections

from slipway.launch.runs import config_file

CONFIG = "config.json"

# A run needs about this much space for its first snapshots.
MIN_FREE_BYTES = 50_000_000

# Size of a test file: a whole block, which a full disk or quota rejects.
_PROBE_BYTES = 4_096


class RunFolder:
  """The paths of one run's files.

  A folder belongs to a run if it has a config.json.

  folder = RunFolder.create("runs", "cartpole-1", overwrite=False)
  folder.write_config(config)
  config = RunFolder.open("runs/cartpole-1").read_config()
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Makes the paths below `path`, without accessing files."""
    self.path = pathlib.Path(path)

  @classmethod
  def create(
    cls, run_dir: str | os.PathLike[str], name: str, overwrite: bool
  ) -> "RunFolder":
    """Makes the folder of a new run and its subfolders.

    Args:
      run_dir: folder of all runs; made if it is missing.
      name: the run's name, of letters, digits and `._-`.
      overwrite: whether to delete an older run of that name, after all other
        checks; a folder that is no run is never deleted.

    Raises:
      ValueError: the name is invalid, the folder exists, or the disk
        can't be written.
    """
    run_dir = pathlib.Path(run_dir)
    check_name(name)
    folder = cls(run_dir / name)
    _check_disk(run_dir)
    try:
      if os.path.lexists(folder.path):
        folder._check_replaceable(overwrite)
        shutil.rmtree(folder.path)
      # Only the user may write: a resume executes pickles in snapshots.
      folder.path.mkdir(mode=0o700)
      folder.make_subfolders()
    except OSError as error:
      raise ValueError(
        f"run folder {str(folder.path)!r} cannot be made "
        f"({error.strerror}): choose another run name or run folder"
      ) from error
    return folder

  @classmethod
  def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
    """Returns the folder of an existing run.

    Raises:
      ValueError: there is no run at `path`; the message suggests the nearest.
    """
    folder = cls(path)
    if folder.is_run():
      return folder
    nearest = _nearest_run(folder.path)
    advice = (
      f"the nearest run is {str(nearest)!r}"
      if nearest
      else "there is no run next to it either; give a run's folder"
    )
    raise ValueError(
      f"{str(path)!r} has no config.json, so it is not a run: {advice}"
    )

  @property
  def name(self) -> str:
    """Name of the run."""
    return self.path.resolve().name

  @property
  def config(self) -> pathlib.Path:
    """The run's config, as JSON."""
    return self.path / CONFIG

  @property
  def snapshots(self) -> pathlib.Path:
    """Folder of the numbered snapshots."""
    return self.path / "snapshots"

  def replay_saving(self, shard: int) -> pathlib.Path:
    """Returns the folder in which a shard's server saves its tables.

    The saved tables are then moved into a snapshot.
    """
    return self.path / f".replay-{shard}"

  @property
  def best(self) -> pathlib.Path:
    """Variables of the best evaluation."""
    return self.path / "best.npz"

  @property
  def logs(self) -> pathlib.Path:
    """Folder of the nodes' logs and the event logs."""
    return self.path / "logs"

  @property
  def events(self) -> pathlib.Path:
    """Log directory of TensorBoard."""
    return self.path / "events"

  @property
  def curves_csv(self) -> pathlib.Path:
    """Table with one row per evaluation."""
    return self.path / "curves.csv"

  @property
  def curves_png(self) -> pathlib.Path:
    """Picture of the evaluations."""
    return self.path / "curves.png"

  @property
  def summary(self) -> pathlib.Path:
    """Final counts and rates of the run, as JSON."""
    return self.path / "summary.json"

  @property
  def videos(self) -> pathlib.Path:
    """Folder of the videos of episodes."""
    return self.path / "videos"

  def is_run(self) -> bool:
    """Returns whether the folder belongs to a run."""
    return self.config.is_file()

  def make_subfolders(self) -> None:
    """Makes all subfolders that are missing.

    Raises:
      OSError: a folder can't be made.
    """
    for path in (self.snapshots, self.logs, self.events, self.videos):
      path.mkdir(exist_ok=True)

  def write_config(self, config: ml_collections.ConfigDict) -> None:
    """Writes the resolved config.

    Raises:
      ValueError: JSON can't represent a field's value.
      OSError: a file could not be written; the message names it.
    """
    text = config_file.to_json(config)
    with writing(self.config), replacing(self.config) as path:
      path.write_text(text, encoding="utf-8")

  def read_config(self) -> ml_collections.ConfigDict:
    """Reads the config, without checking its fields.

    Raises:
      ValueError: config.json can't be read.
    """
    return config_file.read(self.config)

  def _check_replaceable(self, overwrite: bool) -> None:
    """Raises ValueError unless the existing folder is a run to overwrite."""
    shown = f"run folder {str(self.path)!r}"
    if not overwrite:
      raise ValueError(
        f"{shown} exists: choose another run name, or allow overwriting, "
        "which deletes it"
      )
    if self.path.is_symlink() or not self.is_run():
      raise ValueError(
        f"{shown} exists but is no run (a link, a file, or without "
        "config.json), so it is not overwritten: choose another run name"
      )


def make_name(algorithm: str, task: str) -> str:
  """Returns a new run's name, such as 'apex_dqn_cartpole-20261122-213000'.

  Args:
    algorithm: name of the algorithm or of its config's file.
    task: name of the preset or of the environment; may be empty.
  """
  words = re.findall(r"[a-z0-9]+", f"{algorithm} {task}".lower())
  return f"{'_'.join(words)}-{time.strftime('%Y%m%d-%H%M%S')}"


def check_name(name: str) -> None:
  """Checks that a run's name can be the name of a folder.

  Raises:
    ValueError: the name has other characters.
  """
  if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name in (".", ".."):
    raise ValueError(
      f"run name {name!r} can't be a folder's name: use letters, "
      "digits, '.', '_' and '-' only"
    )


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
  """Converts an OSError in the block to one whose message names `path`."""
  try:
    yield
  except OSError as error:
    raise OSError(
      f"{str(path)!r} cannot be written ({error.strerror or error}): free some "
      "space or make it writable; what was written before is kept"
    ) from error


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a temporary path, which is then renamed to `path` atomically."""
  temporary = path.with_name(f".{path.name}.{os.getpid()}")
  try:
    yield temporary
    os.replace(temporary, path)
  except BaseException:
    temporary.unlink(missing_ok=True)
    raise


def _check_disk(run_dir: pathlib.Path) -> None:
  """Makes a folder; raises ValueError if it is not writable or nearly full."""
  try:
    run_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(run_dir).free
    if free >= MIN_FREE_BYTES:
      with tempfile.TemporaryFile(dir=run_dir) as probe:
        probe.write(bytes(_PROBE_BYTES))
        probe.flush()
        os.fsync(probe.fileno())
  except OSError as error:
    raise ValueError(
      f"run folder {str(run_dir)!r} cannot be written ({error.strerror}), so "
      "nothing of the run would be kept: choose another one"
    ) from error
  if free < MIN_FREE_BYTES:
    raise ValueError(
      f"run folder {str(run_dir)!r} has {free / 1e6:,.0f} MB free, under the "
      f"{MIN_FREE_BYTES / 1e6:,.0f} MB that a run needs for its snapshots: "
      "free some space or choose another one"
    )


def _nearest_run(path: pathlib.Path) -> pathlib.Path | None:
  """Returns a run that contains `path`, or else a similar or the newest one.

  That one is searched for in the first folder of `path` and its parents that
  exists. None if that folder has no run.
  """
  for parent in path.parents:
    if RunFolder(parent).is_run():
      return parent
  for folder in (path, *path.parents):
    if folder.is_dir():
      runs = {config.parent.name: config for config in _list_configs(folder)}
      similar = difflib.get_close_matches(path.name, runs, n=1, cutoff=0.5)
      newest = max(runs, key=lambda n: runs[n].stat().st_mtime, default=None)
      nearest = similar[0] if similar else newest
      return folder / nearest if nearest else None
  return None


def _list_configs(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the paths of the configs of all runs in a folder."""
  return [path for path in folder.glob("*/config.json") if path.is_file()]
