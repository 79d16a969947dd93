"""Installation: installs a peer's packages in a separate venv."""

import hashlib
import os
import pathlib
import subprocess
import sys

from benchmarks import machine
from benchmarks.peers import entries

_VENVS = machine.ROOT / ".cache" / "peers"
_STAMP = "requirements.sha256"


class NotInstalledError(Exception):
  """A peer's packages can't be installed; the message is one line."""


def python_for(entry: entries.Entry) -> pathlib.Path:
  """Returns the Python of an entry's program; installs it if its lock changed.

  Args:
    entry: entry of the comparison.

  Raises:
    NotInstalledError: its packages can't be installed.
  """
  if entry.python is None:
    return pathlib.Path(sys.executable)
  lock = entries.FOLDER / entry.folder / "requirements.txt"
  return install(lock, entry.python, _VENVS / entry.folder)


def install(
  lock: pathlib.Path, version: str, venv: pathlib.Path
) -> pathlib.Path:
  """Makes the venv of a lock, unless it exists.

  Args:
    lock: complete lock file; nothing else is installed.
    version: version of Python.
    venv: folder of the venv; an outdated one is replaced.

  Returns:
    The venv's Python.

  Raises:
    NotInstalledError: the installation failed.
  """
  python = venv / "bin" / "python"
  stamp = venv / _STAMP
  checksum = hashlib.sha256(lock.read_bytes()).hexdigest()
  if python.exists() and stamp.exists() and stamp.read_text() == checksum:
    return python
  print(f"installing {lock.parent.name} ...", file=sys.stderr, flush=True)
  _uv("venv", "-q", "--clear", f"--python={_find(version)}", str(venv))
  # Without dependencies, since their pins contradict the lock's versions.
  _uv(
    *("pip", "install", "-q", f"--python={python}", "--no-deps"),
    # Or each start would compile thousands of modules where the user's
    # PYTHONDONTWRITEBYTECODE is set.
    *("--compile-bytecode", f"--requirements={lock}"),
  )
  # Written last: an interrupted installation is begun again.
  stamp.write_text(checksum)
  return python


def _find(version: str) -> str:
  """Returns the argument by which uv finds a Python, also a hidden one."""
  if version == f"{sys.version_info.major}.{sys.version_info.minor}":
    return os.path.realpath(sys.executable)
  return version


def _uv(*arguments: str) -> None:
  done = subprocess.run(
    [machine.ROOT / "tools" / "uv.sh", *arguments],
    capture_output=True,
    text=True,
    env={**os.environ, "UV_HTTP_TIMEOUT": "300"},
  )
  if done.returncode:
    lines = done.stderr.strip().splitlines() or ["uv said nothing"]
    raise NotInstalledError(lines[0].strip())
