"""Watched: a running program, its reported progress and its resources."""

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import tempfile
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence

from benchmarks.peers import entries, tree

_LOOK_S = 0.5
_GRACE_S = 20.0


class FailedError(Exception):
  """A program failed, or made no progress; the message is one line."""


class Line(typing.NamedTuple):
  """The values that a program reports each second; see common/progress.py."""

  at_s: float
  env_steps: int
  updates: int
  mean_return: float | None
  evaluated: float | None
  paused_s: float
  reached: bool


def parse(text: str) -> Line | None:
  """Parses a line of progress; None: the program printed something else."""
  try:
    told = json.loads(text)
    return Line(
      at_s=float(told["at_s"]),
      env_steps=int(told["env_steps"]),
      updates=int(told["updates"]),
      mean_return=told["return"],
      evaluated=told["evaluated"],
      paused_s=float(told["paused_s"]),
      reached=bool(told["reached"]),
    )
  except (ValueError, KeyError, TypeError):
    return None


class Watched:
  """A running program.

  Attributes:
    began_s: monotonic seconds of the program's start.
    tree: processes of the program.
  """

  def __init__(
    self, process: subprocess.Popen, all_of_it: tree.Tree, errors: pathlib.Path
  ):
    """Starts to read the program's output.

    Args:
      process: first process, whose stdout is a pipe of text.
      all_of_it: tree of its processes.
      errors: file of its stderr.
    """
    self.began_s = time.monotonic()
    self.tree = all_of_it
    self._process = process
    self._errors = errors
    self._lines: queue.Queue[Line | None] = queue.Queue()
    threading.Thread(target=self._read, daemon=True).start()

  def wait(self, until: Callable[[Line], bool], deadline_s: float) -> Line:
    """Reads lines until one fulfils a condition, and measures the processes.

    Args:
      until: function that returns whether a line fulfils the condition.
      deadline_s: monotonic seconds at which to give up.

    Returns:
      The line that fulfils the condition.

    Raises:
      FailedError: the program ended before.
      TimeoutError: no such line came in time.
    """
    while time.monotonic() < deadline_s:
      self.tree.look_again()
      with contextlib.suppress(queue.Empty):
        line = self._lines.get(timeout=_LOOK_S)
        if line is None:
          raise FailedError(self._why())
        if until(line):
          return line
    raise TimeoutError

  def _read(self) -> None:
    assert self._process.stdout is not None
    for text in self._process.stdout:
      line = parse(text)
      if line is not None:
        self._lines.put(line)
    self._lines.put(None)

  def _why(self) -> str:
    """Returns the end of its stderr, or its exit status if that is empty."""
    status = self._process.wait()
    said = self._errors.read_text(errors="replace").strip().splitlines()
    end = said[-1].strip() if said else "it said nothing"
    return f"ended with status {status}: {end}"


@contextlib.contextmanager
def started(
  command: Sequence[str | os.PathLike[str]],
  path: Sequence[pathlib.Path] = (entries.FOLDER / "common",),
) -> Iterator[Watched]:
  """Starts a program in its own folder, and stops all of it after the block.

  Args:
    command: Python, the program and its arguments.
    path: folders for imports, in addition to Python's own.
  """
  all_of_it = tree.Tree()
  environment = {
    **all_of_it.environment,
    "PYTHONPATH": os.pathsep.join(map(str, path)),
    "TF_CPP_MIN_LOG_LEVEL": "3",
  }
  with (
    tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    open(pathlib.Path(folder) / "stderr.txt", "wb") as errors,
  ):
    environment["LAUNCHPAD_LOGGING_DIR"] = folder
    process = subprocess.Popen(
      command,
      cwd=folder,
      env=environment,
      stdin=subprocess.DEVNULL,
      stdout=subprocess.PIPE,
      stderr=errors,
      text=True,
      errors="replace",
      start_new_session=True,
    )
    try:
      yield Watched(process, all_of_it, pathlib.Path(errors.name))
    finally:
      all_of_it.end(_GRACE_S)
      process.wait()
