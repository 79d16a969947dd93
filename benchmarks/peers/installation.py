"""Installation: a peer's own packages, in a venv of their own."""

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
  """A peer's packages can't be installed; one line says why."""


def python_for(entry: entries.Entry) -> pathlib.Path:
  """The Python that runs an entry's program; made if its lock has changed.

  Args:
    entry: of the comparison.

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
  """Makes a venv of a lock, unless it is made.

  Args:
    lock: complete; nothing beside it is installed.
    version: of Python.
    venv: its folder; what stands there otherwise is replaced.

  Returns:
    The venv's Python.

  Raises:
    NotInstalledError: that is not possible.
  """
  python = venv / "bin" / "python"
  stamp = venv / _STAMP
  checksum = hashlib.sha256(lock.read_bytes()).hexdigest()
  if python.exists() and stamp.exists() and stamp.read_text() == checksum:
    return python
  print(f"installing {lock.parent.name} ...", file=sys.stderr, flush=True)
  _uv("venv", "-q", "--clear", f"--python={_find(version)}", str(venv))
  # Dependencies are not asked for: what they pin contradicts what works.
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
  """What uv takes for a Python; where ours was found it may not look."""
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
