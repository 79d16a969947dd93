"""Watched: runs a peer's program, and reads its progress and its resources."""

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

_POLL_S = 0.5  # between two checks of the deadline
_GRACE_S = 20.0  # between SIGTERM and SIGKILL


class FailedError(Exception):
  """A program failed, or made no progress; the message is one line of text."""


class Line(typing.NamedTuple):
  """One line of a program's progress, as `common/progress.py` writes it.

  Attributes:
    at_s: time of the values on the monotonic clock, in seconds.
    env_steps: environment steps so far.
    updates: updates of the network so far.
    mean_return: mean return of the last 20 training episodes; None: there are
      fewer.
    evaluated: mean return of the last greedy evaluation; None: there was none.
    evaluated_at: environment steps of its policy; None: they are unknown.
    paused_s: seconds spent in evaluations so far.
    reached: whether a mean return has reached the program's target.
  """

  at_s: float
  env_steps: int
  updates: int
  mean_return: float | None
  evaluated: float | None
  evaluated_at: int | None
  paused_s: float
  reached: bool


def parse(text: str) -> Line | None:
  """Parses one line of a program's output; None: it is no line of progress."""
  try:
    values = json.loads(text)
    return Line(
      at_s=float(values["at_s"]),
      env_steps=int(values["env_steps"]),
      updates=int(values["updates"]),
      mean_return=values["return"],
      evaluated=values["evaluated"],
      evaluated_at=values["evaluated_at"],
      paused_s=float(values["paused_s"]),
      reached=bool(values["reached"]),
    )
  except (ValueError, KeyError, TypeError):
    return None


class Watched:
  """A running program whose progress is read.

  Attributes:
    began_s: time of the program's start on the monotonic clock, in seconds.
    tree: all processes of the program.
  """

  def __init__(
    self, process: subprocess.Popen, processes: tree.Tree, errors: pathlib.Path
  ):
    """Starts the thread that reads the program's output.

    Args:
      process: first process of the program, whose stdout is a pipe of text.
      processes: all processes of the program.
      errors: file to which the program's stderr is written.
    """
    self.began_s = time.monotonic()
    self.tree = processes
    self._process = process
    self._errors = errors
    self._lines: queue.Queue[Line | None] = queue.Queue()
    threading.Thread(target=self._read, daemon=True).start()

  def wait(self, until: Callable[[Line], bool], deadline_s: float) -> Line:
    """Waits for a line of progress that fulfils a condition.

    Meanwhile, it measures the processes every second.

    Args:
      until: function that returns whether a line fulfils the condition.
      deadline_s: time on the monotonic clock at which waiting ends, in seconds.

    Returns:
      The first line that fulfils the condition.

    Raises:
      FailedError: the program ended before.
      TimeoutError: the program wrote no such line in time.
    """
    while time.monotonic() < deadline_s:
      self.tree.measure_if_due()
      with contextlib.suppress(queue.Empty):
        line = self._lines.get(timeout=_POLL_S)
        if line is None:
          raise FailedError(self._describe_end())
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

  def _describe_end(self) -> str:
    """Returns the program's exit status and the last line of its stderr."""
    status = self._process.wait()
    lines = self._errors.read_text(errors="replace").strip().splitlines()
    end = lines[-1].strip() if lines else "it wrote nothing to stderr"
    return f"ended with status {status}: {end}"


@contextlib.contextmanager
def start_program(
  command: Sequence[str | os.PathLike[str]],
  path: Sequence[pathlib.Path] = (entries.FOLDER / "common",),
) -> Iterator[Watched]:
  """Runs a program during a `with` block, and then stops all its processes.

  The program's working directory is a new temporary folder.

  Args:
    command: Python, the program and its arguments.
    path: folders for imports, in addition to Python's own.

  Yields:
    The running program.
  """
  processes = tree.Tree()
  environment = {
    **processes.environment,
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
      yield Watched(process, processes, pathlib.Path(errors.name))
    finally:
      processes.stop(_GRACE_S)
      process.wait()
