"""Run folder: where one run keeps its config, snapshots, curves and logs."""

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

# Less than this, and a run would be lost at one of its first snapshots.
MIN_FREE_BYTES = 50_000_000

_PROBE_BYTES = 4_096  # a block: what quotas and full disks refuse


class RunFolder:
  """The paths of one run. A folder is a run once it holds a config.json.

  folder = RunFolder.create("runs", "cartpole-1", overwrite=False)
  folder.write_config(config)
  config = RunFolder.open("runs/cartpole-1").read_config()
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Names the paths under `path`; touches no file."""
    self.path = pathlib.Path(path)

  @classmethod
  def create(
    cls, run_dir: str | os.PathLike[str], name: str, overwrite: bool
  ) -> "RunFolder":
    """Makes `run_dir`/`name` and its subfolders.

    Args:
      run_dir: Where runs are kept; made if needed.
      name: Letters, digits and `._-`; also the run's title.
      overwrite: Deletes an older run of that name, but nothing that isn't a
        run. It is deleted only once all other checks have passed.

    Raises:
      ValueError: One line: the name is not fit for a folder, the folder exists
        and may not be replaced, or the disk can't be written.
    """
    run_dir = pathlib.Path(run_dir)
    check_name(name)
    folder = cls(run_dir / name)
    _check_disk(run_dir)
    try:
      if os.path.lexists(folder.path):
        folder._check_replaceable(overwrite)
        shutil.rmtree(folder.path)
      # A run is for its user alone: snapshots hold what a resume executes.
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
    """Returns the run at `path`, for reading.

    Raises:
      ValueError: One line: there is no run, and which one is nearest.
    """
    folder = cls(path)
    if folder.is_run():
      return folder
    nearest = _nearest_run(folder.path)
    advice = (
      f"the nearest run is {str(nearest)!r}"
      if nearest
      else "there is none beside it either; give a run's folder"
    )
    raise ValueError(
      f"{str(path)!r} has no config.json, so it is not a run: {advice}"
    )

  @property
  def name(self) -> str:
    return self.path.resolve().name

  @property
  def config(self) -> pathlib.Path:
    return self.path / CONFIG

  @property
  def snapshots(self) -> pathlib.Path:
    return self.path / "snapshots"

  def replay_saving(self, shard: int) -> pathlib.Path:
    """Where a replay server writes its tables, which move into a snapshot."""
    return self.path / f".replay-{shard}"

  @property
  def best(self) -> pathlib.Path:
    """The variables of the best evaluation."""
    return self.path / "best.npz"

  @property
  def logs(self) -> pathlib.Path:
    return self.path / "logs"

  @property
  def events(self) -> pathlib.Path:
    """TensorBoard's log directory."""
    return self.path / "events"

  @property
  def curves_csv(self) -> pathlib.Path:
    return self.path / "curves.csv"

  @property
  def curves_png(self) -> pathlib.Path:
    return self.path / "curves.png"

  @property
  def summary(self) -> pathlib.Path:
    return self.path / "summary.json"

  @property
  def videos(self) -> pathlib.Path:
    return self.path / "videos"

  def is_run(self) -> bool:
    return self.config.is_file()

  def make_subfolders(self) -> None:
    """Makes those that are missing, as where only the config has come.

    Raises:
      OSError: the disk refuses.
    """
    for path in (self.snapshots, self.logs, self.events, self.videos):
      path.mkdir(exist_ok=True)

  def write_config(self, config: ml_collections.ConfigDict) -> None:
    """Writes the resolved config, from which `read_config` makes an equal one.

    Raises:
      ValueError: A field's value has no place in JSON.
      OSError: One line naming the file that could not be written.
    """
    text = config_file.to_json(config)
    with writing(self.config), replacing(self.config) as path:
      path.write_text(text, encoding="utf-8")

  def read_config(self) -> ml_collections.ConfigDict:
    """Returns the config, unchecked: tuples are tuples again, and inf is inf.

    Raises:
      ValueError: One line: config.json can't be read.
    """
    return config_file.read(self.config)

  def _check_replaceable(self, overwrite: bool) -> None:
    where = f"run folder {str(self.path)!r}"
    if not overwrite:
      raise ValueError(
        f"{where} exists: choose another run name, or allow overwriting, "
        "which deletes it"
      )
    if self.path.is_symlink() or not self.is_run():
      raise ValueError(
        f"{where} exists but is no run (a link, a file, or without "
        "config.json), so it is not overwritten: choose another run name"
      )


def make_name(algorithm: str, task: str) -> str:
  """Returns a name for a new run: 'apex_dqn_cartpole-20261122-213000'.

  Args:
    algorithm: name of the algorithm or of its config's file.
    task: name of the preset or of the environment; may be empty.
  """
  words = re.findall(r"[a-z0-9]+", f"{algorithm} {task}".lower())
  return f"{'_'.join(words)}-{time.strftime('%Y%m%d-%H%M%S')}"


def check_name(name: str) -> None:
  """Checks the name of a run, which is also its folder's.

  Raises:
    ValueError: One line: it is not fit for that.
  """
  if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name in (".", ".."):
    raise ValueError(
      f"run name {name!r} is not fit for a folder's name: use letters, "
      "digits, '.', '_' and '-' only"
    )


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
  """Makes of an OSError within it one line that names `path`."""
  try:
    yield
  except OSError as error:
    raise OSError(
      f"{str(path)!r} cannot be written ({error.strerror or error}): free some "
      "space or make it writable; what was written before is kept"
    ) from error


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a path beside `path`, and renames it: nobody reads half a file."""
  beside = path.with_name(f".{path.name}.{os.getpid()}")
  try:
    yield beside
    os.replace(beside, path)
  except BaseException:
    beside.unlink(missing_ok=True)
    raise


def _check_disk(run_dir: pathlib.Path) -> None:
  """Makes `run_dir` and writes a probe to it, or raises one line."""
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
  """A run around `path`, in it, or the one beside it with the likest name."""
  for parent in path.parents:
    if RunFolder(parent).is_run():
      return parent
  for place in (path, *path.parents):
    if place.is_dir():
      runs = {config.parent.name: config for config in _configs(place)}
      alike = difflib.get_close_matches(path.name, runs, n=1, cutoff=0.5)
      newest = max(runs, key=lambda n: runs[n].stat().st_mtime, default=None)
      found = alike[0] if alike else newest
      return place / found if found else None
  return None


def _configs(place: pathlib.Path) -> list[pathlib.Path]:
  return [path for path in place.glob("*/config.json") if path.is_file()]
