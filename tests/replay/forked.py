"""Forked: test processes, forked from one that has imported TensorFlow.

Importing Reverb and TensorFlow takes two seconds of CPU time. Forking a process
that has imported them takes 20 ms. The forker and all processes that it has
forked end with the tests.

python -m tests.replay.forked DESCRIPTOR
"""

import contextlib
import functools
import importlib
import io
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import typing
from collections.abc import Iterator

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_REQUEST_BYTES = 65_536


class Forked:
  """Process that calls a function; it is killed by `close` at the latest."""

  def __init__(self, function: str, *args: typing.Any):
    """Starts the process.

    Args:
      function: function to call, as 'package.module:name'.
      *args: arguments of the function, as JSON values.
    """
    output, its_output = os.pipe()
    try:
      forker, process = _start_forker()
      assert process.poll() is None, f"the forker has ended: {process}"
      request = json.dumps([function, args]).encode()
      socket.send_fds(forker, [request], [its_output])
      pid, (self._ended,), *_ = socket.recv_fds(forker, _REQUEST_BYTES, 1)
    finally:
      os.close(its_output)
    self.pid = int(pid)
    self.stdout = io.TextIOWrapper(io.FileIO(output), encoding="utf-8")

  def __enter__(self) -> "Forked":
    return self

  def __exit__(self, *exc: object) -> None:
    self.close()

  @property
  def has_ended(self) -> bool:
    """Whether the process has ended."""
    return bool(select.select([self._ended], [], [], 0)[0])

  def kill(self) -> None:
    """Kills the process, and waits until it has ended."""
    signal.pidfd_send_signal(self._ended, signal.SIGKILL)
    select.select([self._ended], [], [])

  def close(self) -> None:
    """Kills the process if it has not ended yet; closes its output."""
    if self._ended < 0:
      return
    if not self.has_ended:
      self.kill()
    os.close(self._ended)
    self._ended = -1
    self.stdout.close()


@contextlib.contextmanager
def running(function: str, *args: typing.Any) -> Iterator[Forked]:
  """Starts a process, and yields it when it has printed 'ready'.

  The process is killed when the block ends.

  Args:
    function: function that the process calls, as 'package.module:name'.
    *args: arguments of the function, as JSON values.
  """
  with Forked(function, *args) as process:
    assert process.stdout.readline() == "ready\n"
    yield process


@functools.cache
def _start_forker() -> tuple[socket.socket, subprocess.Popen]:
  """Starts the process that forks all others; returns a connection to it."""
  here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
  with there:
    process = subprocess.Popen(
      [sys.executable, "-m", __name__, str(there.fileno())],
      pass_fds=[there.fileno()],
      cwd=_ROOT,
      stderr=subprocess.DEVNULL,
      start_new_session=True,
    )
  return here, process


def _serve(requests: socket.socket) -> None:
  """Forks a process per request, until the tests have ended."""
  from slipway.launch.processes import lean_tensorflow

  lean_tensorflow.import_tensorflow()
  importlib.import_module("slipway.replay.tables.trajectory_manager")
  while True:
    request, descriptors, *_ = socket.recv_fds(requests, _REQUEST_BYTES, 1)
    if not request:
      os.killpg(0, signal.SIGKILL)
    pid = os.fork()
    if pid == 0:
      _run(request, *descriptors)
    # Also valid if the process has ended: no process waits for it, so the
    # kernel keeps its id.
    ended = os.pidfd_open(pid)
    socket.send_fds(requests, [str(pid).encode()], [ended])
    for descriptor in (ended, *descriptors):
      os.close(descriptor)


def _run(request: bytes, output: int) -> typing.NoReturn:
  """Calls the function that a request names, and ends this process."""
  try:
    os.dup2(output, 1)
    name, args = json.loads(request)
    module, _, function = name.partition(":")
    getattr(importlib.import_module(module), function)(*args)
  finally:
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
  _serve(socket.socket(fileno=int(sys.argv[1])))
