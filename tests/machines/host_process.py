"""Host process: runs a program on a host, with the interface of Popen."""

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Sequence

import psutil


class HostProcess:
  """A program that the test has started on a host of hosts.py.

  Attributes:
    pid: process ID in the test's PID namespace; the host has another ID for it.
  """

  def __init__(
    self,
    init: int,
    argv: Sequence[str],
    env: dict[str, str],
    stdout,
    stderr,
    folder: pathlib.Path,
  ):
    """Starts the program.

    Args:
      init: process ID of the host's pid 1, in the test's PID namespace.
      argv: the program and its arguments.
      env: all environment variables of the program.
      stdout: open file for the standard output.
      stderr: open file for the standard error.
      folder: working directory of the program.
    """
    # A process can't enter a PID namespace itself, only its children can. So
    # nsenter stays the program's parent, and exits with the same status.
    self._nsenter = subprocess.Popen(
      ["nsenter", f"--target={init}", "--mount", "--uts", "--ipc", "--net"]
      # The program gets a new session on the host, since an inherited process
      # group would have no ID in the host's PID namespace.
      + ["--pid", "--", "env", f"--chdir={folder}", "setsid", *argv],
      stdin=subprocess.DEVNULL,
      stdout=stdout,
      stderr=stderr,
      env=env,
      start_new_session=True,
    )
    self.pid = self._child()

  def _child(self) -> int:
    """Returns the program's process ID, or nsenter's if that has ended."""
    nsenter = psutil.Process(self._nsenter.pid)
    while self._nsenter.poll() is None:
      try:
        children = nsenter.children()
      except psutil.NoSuchProcess:
        break
      if children:
        return children[0].pid
      time.sleep(0.001)
    return self._nsenter.pid

  @property
  def returncode(self) -> int | None:
    return self._nsenter.returncode

  def poll(self) -> int | None:
    """Returns the exit status as Popen does, or None while it runs."""
    return self._nsenter.poll()

  def wait(self, timeout_s: float | None = None) -> int:
    """Waits for the program's end; returns its exit status as Popen does.

    Args:
      timeout_s: seconds to wait; None waits without limit.

    Raises:
      subprocess.TimeoutExpired: the program has not ended in time.
    """
    return self._nsenter.wait(timeout_s)

  def send_signal(self, number: int) -> None:
    """Sends the program a signal, unless it has ended."""
    if self.poll() is not None:
      return
    try:
      os.kill(self.pid, number)
      if number == signal.SIGCONT:  # nsenter stops with its child
        self._nsenter.send_signal(number)
    except ProcessLookupError:
      pass

  def terminate(self) -> None:
    self.send_signal(signal.SIGTERM)

  def kill(self) -> None:
    self.send_signal(signal.SIGKILL)
