"""Fork server: a process with all modules imported, which forks the nodes.

This is the launcher's side of it; `forking` is the server's own.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import typing
import uuid
from multiprocessing import connection as connection_lib

from slipway.launch.processes import descendants, failures, processors, signals

if typing.TYPE_CHECKING:
  from slipway.launch.processes import forking, node_process

_END_TIMEOUT_S = 5.0  # seconds that the server may take to end


class EndedError(Exception):
  """Raised if the fork server has ended, so that nodes can't be watched."""


class ForkServer:
  """Forks nodes, and reports their ends, from its construction to `close`.

  The server imports TensorFlow and all nodes, which takes seconds. The nodes
  end with it, and it ends with this process.
  """

  def __init__(self, memory_dir: str):
    """Starts the server, without waiting for its imports.

    Args:
      memory_dir: the run's tmpfs directory on this machine.

    Raises:
      OSError: the process can't be made.
    """
    self._mark = uuid.uuid4().hex
    # They configure the libraries that the server imports. Each node adds
    # further ones.
    self._environment = {
      **processors.make_thread_variables(1),
      **processors.NO_GPU,
      "TF_CPP_MIN_LOG_LEVEL": "1",  # omits informational log lines
      # Without it, TensorFlow's import of distutils imports setuptools (0.2 s).
      "SETUPTOOLS_USE_DISTUTILS": "stdlib",
      "PYTHONUNBUFFERED": "1",  # so that a killed process has written its log
      "TMPDIR": memory_dir,
      descendants.RUN_VARIABLE: self._mark,
    }
    self._process: subprocess.Popen | None = None
    self.ensure_running()

  def ensure_running(self) -> None:
    """Starts the server if it has ended."""
    if self._process is not None and self._process.poll() is None:
      return
    self._is_ready, self._ends = False, []
    self._connection, theirs = connection_lib.Pipe()
    code = (
      f"import sys; sys.path[:] = {sys.path!r}; "
      "from slipway.launch.processes import forking; "
      f"forking.serve({theirs.fileno()})"
    )
    # A process inherits the blocked signals. Otherwise one could kill it before
    # it outlives them. A thread of each node waits for `SHUTDOWN_SIGNAL`.
    numbers = {*signals.GROUP_SIGNALS, signals.SHUTDOWN_SIGNAL}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
      self._process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        env=os.environ | self._environment,
        start_new_session=True,  # Ctrl-Z stops the launcher only
      )
    finally:
      signal.pthread_sigmask(signal.SIG_SETMASK, before)
      theirs.close()

  def is_ready(self, timeout_s: float) -> bool:
    """Waits until the server has imported all modules, or for a timeout.

    Raises:
      EndedError: the server has ended.
    """
    if not self._is_ready and self._connection.poll(timeout_s):
      self._receive()
      self._is_ready = True
    return self._is_ready

  def fork(
    self, node: "node_process.PreparedNode", log: pathlib.Path, mark: str
  ) -> int:
    """Forks the process of a node once the server is ready; returns its pid.

    The node finds modules where this process finds them. The arguments are
    those of `node_process.run`.

    Raises:
      EndedError: the server has ended.
    """
    try:
      self._connection.send((node, log, mark, sys.path))
    except OSError:
      self._receive()
    while not isinstance(message := self._receive(), int):
      self._ends.append(message)
    return message

  def wait(self, timeout_s: float) -> "list[forking.NodeEnd]":
    """Waits for the end of a process, or for a timeout; returns all ends.

    Raises:
      EndedError: the server has ended.
    """
    while self._connection.poll(0.0 if self._ends else timeout_s):
      self._ends.append(self._receive())
    ends, self._ends = self._ends, []
    return ends

  def close(self) -> None:
    """Kills the server, and all that descends from it."""
    if self._process is not None:
      self._process.kill()
      self._process.wait()
      self._connection.close()
      # Also those whose nodes have ended together with this server.
      descendants.kill_marked({self._mark}, ())

  def _receive(self) -> typing.Any:
    """Returns the server's next message, or raises EndedError."""
    try:
      return self._connection.recv()
    except (EOFError, OSError):
      assert self._process is not None
      with contextlib.suppress(subprocess.TimeoutExpired):
        self._process.wait(_END_TIMEOUT_S)
      self._process.kill()
      code = self._process.wait()
      how = f"ended with exit status {code}"
      if code < 0:
        how = f"was ended by {failures.name_signal(-code)}"
      raise EndedError(f"the fork server {how}") from None
