"""Installation: installs a peer's packages in its own virtual environment."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from benchmarks import machine
from benchmarks.peers import entries

_VENVS = machine.ROOT / ".cache" / "peers"
_STAMP = "requirements.sha256"


class NotInstalledError(Exception):
  """A peer's packages can't be installed; the message is one line of text."""


def install_for(entry: entries.Entry) -> pathlib.Path:
  """Installs an entry's packages if its lock file has changed.

  Args:
    entry: entry of the comparison.

  Returns:
    Path of the Python that runs the entry's program.

  Raises:
    NotInstalledError: the entry's packages can't be installed.
  """
  if entry.python is None:
    return pathlib.Path(sys.executable)
  lock = entries.FOLDER / entry.folder / "requirements.txt"
  return install(lock, entry.python, _VENVS / entry.folder)


def make_command(entry: entries.Entry, task: str, seed: int) -> list[str]:
  """Returns the command that runs an entry's program; installs its packages.

  Args:
    entry: entry of the comparison.
    task: name of the task, one of `entries.TASKS`.
    seed: seed of the run.

  Raises:
    NotInstalledError: the entry's packages can't be installed.
  """
  return [
    *(str(install_for(entry)),),
    str(entries.FOLDER / entry.folder / "program.py"),
    *(f"--task={task}", f"--seed={seed}", f"--variant={entry.variant}"),
  ]


def install(
  lock: pathlib.Path, version: str, venv: pathlib.Path
) -> pathlib.Path:
  """Installs a lock file's packages in a virtual environment, if outdated.

  Args:
    lock: lock file with all packages, dependencies included.
    version: version of Python, such as '3.11'.
    venv: folder of the virtual environment; an outdated one is replaced.

  Returns:
    Path of the virtual environment's Python.

  Raises:
    NotInstalledError: the installation failed.
  """
  python = venv / "bin" / "python"
  if _is_installed(lock, venv) and python.exists():
    return python
  _report_start(lock)
  _run_uv(
    "venv", "-q", "--clear", f"--python={_find_python(version)}", str(venv)
  )
  _install_lock(lock, venv, f"--python={python}")
  return python


def install_packages(lock: pathlib.Path, folder: pathlib.Path) -> None:
  """Installs packages for this Python in a folder, if outdated.

  With the folder at the end of the Python path, they are found beside those
  of this process's environment, which stays as it is.

  Args:
    lock: lock file with the packages and those of their dependencies that this
      process's environment lacks.
    folder: folder of the packages; an outdated one is replaced.

  Raises:
    NotInstalledError: the installation failed.
  """
  if _is_installed(lock, folder):
    return
  _report_start(lock)
  shutil.rmtree(folder, ignore_errors=True)
  _install_lock(
    lock, folder, f"--python={sys.executable}", f"--target={folder}"
  )


def _is_installed(lock: pathlib.Path, folder: pathlib.Path) -> bool:
  """Returns whether a folder has the packages of a lock file as it is now."""
  stamp = folder / _STAMP
  return stamp.exists() and stamp.read_text() == _checksum(lock)


def _report_start(lock: pathlib.Path) -> None:
  """Prints that a lock file is being installed, which can take minutes."""
  print(f"installing {lock.parent.name} ...", file=sys.stderr, flush=True)


def _install_lock(
  lock: pathlib.Path, folder: pathlib.Path, *places: str
) -> None:
  """Installs a lock file's packages, and stamps their folder.

  Args:
    lock: the lock file.
    folder: folder of the packages, or of their virtual environment.
    places: uv's arguments that say where the packages are installed.
  """
  checksum = _checksum(lock)
  # Without dependencies, since their pins contradict the lock's versions.
  _run_uv(
    *("pip", "install", "-q", "--no-deps", *places),
    # Otherwise, where PYTHONDONTWRITEBYTECODE is set, each start would compile
    # thousands of modules.
    *("--compile-bytecode", f"--requirements={lock}"),
  )
  # Written last, so that an interrupted installation starts from scratch.
  (folder / _STAMP).write_text(checksum)


def _checksum(lock: pathlib.Path) -> str:
  """Returns the checksum of a lock file's content."""
  return hashlib.sha256(lock.read_bytes()).hexdigest()


def _find_python(version: str) -> str:
  """Returns uv's argument --python for a version.

  It is a path for this process's version and for those of pyenv, since uv may
  not find them; otherwise the version, which uv finds or fetches.
  """
  if version == f"{sys.version_info.major}.{sys.version_info.minor}":
    return os.path.realpath(sys.executable)
  pyenv = os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv"
  found = sorted(pathlib.Path(pyenv).glob(f"versions/{version}.*/bin/python"))
  return str(found[-1]) if found else version


def _run_uv(*arguments: str) -> None:
  """Runs uv; raises NotInstalledError with the first line of its error."""
  done = subprocess.run(
    [machine.ROOT / "tools" / "uv.sh", *arguments],
    capture_output=True,
    text=True,
    env={**os.environ, "UV_HTTP_TIMEOUT": "300"},
  )
  if done.returncode:
    lines = done.stderr.strip().splitlines() or [
      "uv failed without an error message"
    ]
    raise NotInstalledError(lines[0].strip())
