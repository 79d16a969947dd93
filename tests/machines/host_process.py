"""A process on a host of hosts.py, with the interface of subprocess.Popen."""

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Sequence

import psutil


class HostProcess:
  """A program that was started on a host from outside.

  Attributes:
    pid: as this side sees it; the host's own processes know another.
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
    """Starts it.

    Args:
      init: pid 1 of the host, as this side sees it.
      argv: the program and its arguments.
      env: all of its environment.
      stdout, stderr: open files.
      folder: its working directory.
    """
    # Only a child can be in another pid namespace, so nsenter stays between;
    # it ends as its child does.
    self._nsenter = subprocess.Popen(
      ["nsenter", f"--target={init}", "--mount", "--uts", "--ipc", "--net"]
      # Its session is new on the host too, as the group it would inherit has
      # no number there.
      + ["--pid", "--", "env", f"--chdir={folder}", "setsid", *argv],
      stdin=subprocess.DEVNULL,
      stdout=stdout,
      stderr=stderr,
      env=env,
      start_new_session=True,
    )
    self.pid = self._child()

  def _child(self) -> int:
    """The program's pid; nsenter's own if that ended before it was seen."""
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
    """Returns its exit status, as Popen's; None while it runs."""
    return self._nsenter.poll()

  def wait(self, timeout_s: float | None = None) -> int:
    """Waits for its end; returns its exit status, as Popen's.

    Raises:
      subprocess.TimeoutExpired: if it has not ended in time.
    """
    return self._nsenter.wait(timeout_s)

  def send_signal(self, number: int) -> None:
    """Sends it a signal, unless it has ended."""
    if self.poll() is not None:
      return
    try:
      os.kill(self.pid, number)
      if number == signal.SIGCONT:  # nsenter stopped as its child did.
        self._nsenter.send_signal(number)
    except ProcessLookupError:
      pass

  def terminate(self) -> None:
    self.send_signal(signal.SIGTERM)

  def kill(self) -> None:
    self.send_signal(signal.SIGKILL)
