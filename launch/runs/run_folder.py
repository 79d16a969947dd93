"""RunFolder: the paths of a run's config, snapshots, curves and logs."""

import contextlib
import difflib
import errno
import os
import pathlib
import pwd
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator

import ml_collections

from slipway.launch.runs import config_file

CONFIG = "config.json"  # name of the file with the config in a run's folder
LOCK = ".lock"  # name of the file that the run's launcher locks
SPACES = "spaces.json"  # name of the file with the environment's spaces

# Free space in bytes without which a run does not start: about the size of its
# first snapshots.
MIN_FREE_BYTES = 50_000_000

# Parts of a path that TensorFlow reads as a pattern of a checkpoint's name, or
# fsspec as a pattern or as a chain of URLs.
_SPECIAL = ("[", "]", "*", "?", "\\", "::")

# Size in bytes of the file that tests whether the disk accepts data: a whole
# block, which a full disk or quota rejects.
_PROBE_BYTES = 4_096


class RunFolder:
  """The folder of one run, with a path for each of its files.

  A folder is that of a run if it has a config.json.

  ```python
  folder = RunFolder.create("runs", "cartpole-1", overwrite=False)
  folder.write_config(config)
  config = RunFolder.open("runs/cartpole-1").read_config()
  ```

  Attributes:
    path: path of the folder.
    config: path of the run's config, a JSON file.
    spaces: path of the file with the spaces of the run's environment.
    snapshots: path of the folder with the numbered snapshots.
    best: path of the file with the variables of the best evaluation.
    logs: path of the folder with the nodes' logs and the event logs.
    events: path of TensorBoard's log directory.
    curves_csv: path of the table with one row per evaluation.
    curves_png: path of the picture that shows curves_csv.
    summary: path of the JSON file with the run's final counts and rates.
    videos: path of the folder with videos of episodes.
  """

  def __init__(self, path: str | os.PathLike[str]):
    """Sets the folder's path, without access to the disk."""
    self.path = path = expand(path)
    self.config, self.spaces = path / CONFIG, path / SPACES
    self.snapshots, self.best = path / "snapshots", path / "best.npz"
    self.logs, self.events = path / "logs", path / "events"
    self.curves_csv, self.curves_png = path / "curves.csv", path / "curves.png"
    self.summary, self.videos = path / "summary.json", path / "videos"
    # Folders that a run makes before its config.json.
    self._subfolders = (self.snapshots, self.logs, self.events, self.videos)

  @classmethod
  def create(
    cls, run_dir: str | os.PathLike[str], name: str, overwrite: bool
  ) -> "RunFolder":
    """Makes the folder of a new run, with its subfolders, on the disk.

    An empty folder of that name, such as one that `reserved` makes, is used.

    Args:
      run_dir: folder of all runs; made if it is missing.
      name: the run's name, of letters, digits and `._-`.
      overwrite: whether to delete an older run of that name, after all other
        checks. A folder that is not replaceable is never deleted.

    Raises:
      ValueError: the name or the path is invalid, the folder exists and is not
        to be deleted, or the disk is nearly full or not writable.
    """
    run_dir = expand(run_dir)
    check_name(name)
    folder = cls(run_dir / name)
    check_path(folder.path)
    with _removing_empty_parents(folder.path):
      _check_disk(run_dir)
      try:
        if os.path.lexists(folder.path) and not is_empty(folder.path):
          folder.check_replaceable(overwrite)
          shutil.rmtree(folder.path)
        make_private(folder.path)
        folder.make_subfolders()
      except OSError as error:
        raise ValueError(
          f"run folder {str(folder.path)!r} cannot be made "
          f"({error.strerror}): choose another run name or run folder"
        ) from error
    return folder

  @classmethod
  def open(
    cls, path: str | os.PathLike[str], trust: bool = False
  ) -> "RunFolder":
    """Returns the folder of an existing run.

    Args:
      trust: whether another user may have written its files.

    Raises:
      ValueError: there is no run at `path`, and the message suggests the run
        with the nearest path; or this user may not read the folder, or does
        not trust it.
    """
    folder = cls(path)
    try:
      if folder.is_run():
        if not trust:
          folder._check_owners()
        return folder
      advice = _advise_on_run(folder.path)
      is_missing = not os.path.lexists(folder.path)
    except OSError as error:
      raise ValueError(
        f"{str(path)!r} can't be read ({error.strerror}), so it can't be used "
        "as a run: only the user that started a run may read its folder"
      ) from error
    reason = "does not exist" if is_missing else "has no config.json"
    raise ValueError(f"{str(path)!r} {reason}, so it is not a run: {advice}")

  @property
  def name(self) -> str:
    """Name of the run, which is the name of the folder."""
    return self.path.resolve().name

  def replay_saving(self, shard: int) -> pathlib.Path:
    """Returns the path of the folder to which a replay server saves its table.

    The saved table is then moved into a snapshot.

    Args:
      shard: index of the server among the shards; 0 if there is only one.
    """
    return self.path / f".replay-{shard}"

  def is_run(self) -> bool:
    """Returns whether the folder has a config.json."""
    return self.config.is_file()

  def is_replaceable(self) -> bool:
    """Returns whether a new run may take the folder's place.

    The folder is that of a run, with config.json and snapshots/, or of one that
    ended before: then it has no files but config.json or an unfinished one.

    Raises:
      OSError: the folder can't be read.
    """
    if self.path.is_symlink() or not self.path.is_dir():
      return False
    # Other folders may have a config.json, too, such as checkpoints.
    if self.is_run() and self.snapshots.is_dir():
      return True
    return all(
      path.name in (CONFIG, LOCK)
      or path.name.startswith(f".{CONFIG}.")
      or (path in self._subfolders and not any(path.iterdir()))
      for path in self.path.iterdir()
    )

  def make_subfolders(self) -> None:
    """Makes the missing subfolders: snapshots, logs, events and videos.

    Raises:
      OSError: a folder can't be made.
    """
    for path in self._subfolders:
      path.mkdir(exist_ok=True)

  def write_config(self, config: ml_collections.ConfigDict) -> None:
    """Writes config.json, which is replaced atomically.

    Args:
      config: the whole config, with its references resolved.

    Raises:
      ValueError: JSON can't represent a field's value.
      OSError: the file can't be written; the message has its path.
    """
    text = config_file.to_json(config)
    with writing(self.config), replacing(self.config) as path:
      path.write_text(text, encoding="utf-8")

  def read_config(self) -> ml_collections.ConfigDict:
    """Reads the config from config.json, without a check of its fields.

    Raises:
      ValueError: config.json can't be read.
    """
    return config_file.read(self.config)

  def _check_owners(self) -> None:
    """Checks that this user has written what a command executes."""
    check_owner(self.path)
    for path in (
      *self.path.glob("*.json"),
      self.snapshots,
      *self.snapshots.glob("*"),
      *self.snapshots.glob("*/*"),
    ):
      with contextlib.suppress(FileNotFoundError):
        check_owner(path)

  def check_replaceable(self, overwrite: bool) -> None:
    """Raises ValueError unless the existing folder may be deleted."""
    shown = f"run folder {str(self.path)!r}"
    if not self.is_replaceable():
      raise ValueError(
        f"{shown} exists but is no run (a link, a file, or without "
        "config.json and snapshots/), so it is not overwritten: choose another "
        "run name"
      )
    if not overwrite:
      raise ValueError(
        f"{shown} exists: choose another run name, give --overwrite, which "
        f"deletes it, or continue the run by --resume={self.path}"
      )


def make_name(algorithm: str, task: str) -> str:
  """Returns a name for a new run, such as 'apex_dqn_cartpole-20261122-213000'.

  The numbers are the current date and local time. Runs that start in the same
  second get the same name; `reserved` makes it unique.

  Args:
    algorithm: name of the algorithm or of its config file.
    task: name of the preset or of the environment; may be empty.
  """
  words = re.findall(r"[a-z0-9]+", f"{algorithm} {task}".lower())
  return f"{'_'.join(words)}-{time.strftime('%Y%m%d-%H%M%S')}"


@contextlib.contextmanager
def reserved(
  run_dir: str | os.PathLike[str], name: str
) -> Iterator[pathlib.Path]:
  """Makes an empty folder, whose name no other run or process has.

  The folder is removed after the `with` block if it is still empty, and so are
  the parents that were made for it, so that nothing is left behind by a run
  that was rejected.

  ```python
  with reserved("runs", make_name("ppo", "cartpole")) as path:
    RunFolder.create(path.parent, path.name, overwrite=False)
  ```

  Args:
    run_dir: folder of all runs; made if it is missing.
    name: the name, to which '-2', '-3' and so on is appended if it is taken.

  Yields:
    Path of the folder.

  Raises:
    ValueError: the name is invalid, or the disk is nearly full or not writable.
  """
  check_name(name)
  path, count = expand(run_dir) / name, 1
  with _removing_empty_parents(path):
    _check_disk(path.parent)
    while not _make_new(path):
      count += 1
      path = path.with_name(f"{name}-{count}")
    absolute = path.absolute()  # the block may change the working folder
    try:
      yield path
    finally:
      with contextlib.suppress(OSError):  # it has files, or was removed before
        absolute.rmdir()


def is_empty(path: pathlib.Path) -> bool:
  """Returns whether a path is that of an empty folder, and not of a link.

  Raises:
    OSError: the folder can't be read.
  """
  if path.is_symlink() or not path.is_dir():
    return False
  return all(found.name == LOCK for found in path.iterdir())


def make_private(path: pathlib.Path) -> None:
  """Makes a folder, or takes an existing one, and lets only the user open it.

  Only the user may write, since a resume executes pickles in snapshots.

  Raises:
    OSError: the folder can't be made, or is that of another user.
  """
  if _make_new(path):
    return
  found = path.lstat()
  if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
    raise PermissionError(errno.EPERM, "another user has made it")
  path.chmod(0o700)


def check_owner(
  path: pathlib.Path,
  advice: str = "give --trust (trust=True) if you trust its authors",
) -> None:
  """Checks that nobody but this user, or root, has written a file or folder.

  A run's files name modules that are imported, and snapshots may have pickles.

  Args:
    path: path of a file or folder of a run or sweep.
    advice: end of the error message.

  Raises:
    ValueError: it belongs to another user, or all users may write it.
    OSError: the path does not exist, or can't be read.
  """
  found = path.stat()
  if found.st_uid not in (0, os.geteuid()):
    why = f"belongs to another user ({_name_user(found.st_uid)})"
  elif found.st_mode & stat.S_IWOTH:
    why = "can be written by all users"
  else:
    return
  raise ValueError(
    f"{str(path)!r} {why}, and code that a run's files name would be executed "
    f"with your rights: {advice}"
  )


def expand(path: str | os.PathLike[str]) -> pathlib.Path:
  """Returns a path in which `~` and `~user` are home folders, as in a shell.

  Raises:
    ValueError: there is no such user.
  """
  expanded = os.path.expanduser(path)
  if expanded.startswith("~"):
    raise ValueError(
      f"path {expanded!r} begins with the home folder of a user that does not "
      f"exist, so nothing was made: give './{expanded}' for such a name"
    )
  return pathlib.Path(expanded)


def _name_user(number: int) -> str:
  """Returns a user's name, or its number if it has no name here."""
  try:
    return pwd.getpwuid(number).pw_name
  except KeyError:
    return f"number {number}"


def check_name(name: str) -> None:
  """Checks that a run's name can be the name of a folder.

  Raises:
    ValueError: the name has other characters than letters, digits and `._-`.
  """
  if not re.fullmatch(r"[A-Za-z0-9._-]+", name) or name in (".", ".."):
    raise ValueError(
      f"run name {name!r} can't be a folder's name: use letters, "
      "digits, '.', '_' and '-' only"
    )


def check_path(path: pathlib.Path) -> None:
  """Checks that snapshots below a folder can be restored.

  Args:
    path: path of the folder, which need not exist.

  Raises:
    ValueError: the absolute path has characters with a special meaning.
    OSError: the path is relative, and the working directory was deleted.
  """
  absolute = str(path.absolute())
  if found := [special for special in _SPECIAL if special in absolute]:
    raise ValueError(
      f"run folder {absolute!r} has {found[0]!r} in its path, which is read as "
      "a pattern, so its snapshots could not be restored: rename the folder, "
      "or choose another one"
    )


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
  """Adds a file's path and a remedy to any OSError of the block.

  Args:
    path: path of the file that the block writes.

  Raises:
    OSError: the block raised an OSError, which is the new error's cause.
  """
  try:
    yield
  except OSError as error:
    cause = error.strerror or str(error)
    advice = "free some space or make it writable"
    if not path.parent.is_dir():
      cause = f"the folder {str(path.parent)!r} was moved or deleted"
      advice = "leave a run's folder in its place until the run has ended"
    raise OSError(
      f"{str(path)!r} cannot be written ({cause}): {advice}; what was written "
      "before is kept"
    ) from error


@contextlib.contextmanager
def replacing(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields a temporary path, and renames it to `path` after the block.

  The rename is atomic. If the block raises an error, the temporary file is
  removed and `path` stays as it was.
  """
  temporary = path.with_name(f".{path.name}.{os.getpid()}")
  try:
    yield temporary
    os.replace(temporary, path)
  except BaseException:
    temporary.unlink(missing_ok=True)
    raise


@contextlib.contextmanager
def _removing_empty_parents(path: pathlib.Path) -> Iterator[None]:
  """Removes the parents of a path that the block makes and leaves empty."""
  absolute = path.absolute()  # the block may change the working folder
  missing = [folder for folder in absolute.parents if not folder.exists()]
  try:
    yield
  finally:
    for folder in missing:
      with contextlib.suppress(OSError):  # it has files, or was removed before
        folder.rmdir()


def _make_new(path: pathlib.Path) -> bool:
  """Makes a folder that only the user may open."""
  try:
    path.mkdir(mode=0o700, parents=True)
  except FileExistsError:
    return False
  return True


def _check_disk(run_dir: pathlib.Path) -> None:
  """Makes the folder of all runs, and checks that its disk accepts data."""
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


def _advise_on_run(path: pathlib.Path) -> str:
  """Returns the advice that ends an error about a wrong path of a run."""
  # A run that contains `path` is suggested first, then one of the same or a
  # similar name in the nearest existing folder of `path` and its parents, or in
  # its folder `runs`. If no name is similar, the newest of these runs is named.
  for parent in path.parents:
    if RunFolder(parent).is_run():
      return f"did you mean {str(parent)!r}?"
  nearest = next(x for x in (path, *path.parents) if x.is_dir())
  configs = {
    config.parent.name: config
    for folder in (nearest / "runs", nearest)
    for config in _list_configs(folder)
  }
  similar = difflib.get_close_matches(path.name, configs, n=1, cutoff=0.6)
  if similar:
    return f"did you mean {str(configs[similar[0]].parent)!r}?"
  newest = max(
    configs.values(), key=lambda config: config.stat().st_mtime, default=None
  )
  if newest is not None:
    return f"give a run's folder; the newest is {str(newest.parent)!r}"
  return "there is no run next to it either; give a run's folder"


def _list_configs(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the path of config.json of each run in a folder."""
  return [path for path in folder.glob("*/config.json") if path.is_file()]
