"""Forked: processes of tests, forked from one that has imported TensorFlow.

Each import of Reverb and TensorFlow takes two seconds of CPU, a fork of a
process that has them 20 ms. The process from which all are forked ends with the
tests, and so do they.

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
  """A process that calls a function, from construction to `close`."""

  def __init__(self, function: str, *args: typing.Any):
    """Starts it.

    Args:
      function: as 'package.module:name'.
      *args: of the function, as JSON has them.
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
    """Whether it has ended."""
    return bool(select.select([self._ended], [], [], 0)[0])

  def kill(self) -> None:
    """Kills it, and waits until it has ended."""
    signal.pidfd_send_signal(self._ended, signal.SIGKILL)
    select.select([self._ended], [], [])

  def close(self) -> None:
    """Kills it if it has not ended yet."""
    if self._ended < 0:
      return
    if not self.has_ended:
      self.kill()
    os.close(self._ended)
    self._ended = -1
    self.stdout.close()


@contextlib.contextmanager
def running(function: str, *args: typing.Any) -> Iterator[Forked]:
  """A process that calls a function, once it has printed 'ready'.

  It is killed in the end, if not before.

  Args:
    function: as 'package.module:name'.
    *args: of the function, as JSON has them.
  """
  with Forked(function, *args) as process:
    assert process.stdout.readline() == "ready\n"
    yield process


@functools.cache
def _start_forker() -> tuple[socket.socket, subprocess.Popen]:
  """Starts the process from which all are forked; returns its connection."""
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
  """Forks a process for each request, until the tests have ended."""
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
    # Also valid if it has ended: nobody waits for it, so its id is kept.
    ended = os.pidfd_open(pid)
    socket.send_fds(requests, [str(pid).encode()], [ended])
    for descriptor in (ended, *descriptors):
      os.close(descriptor)


def _run(request: bytes, output: int) -> typing.NoReturn:
  """Calls the function of a request, and ends this process."""
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
