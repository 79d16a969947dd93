"""Forking: what the fork server itself executes, in a process of its own.

The imports must not execute TensorFlow operations, because TensorFlow's threads
do not survive a fork.
"""

import contextlib
import gc
import importlib
import os
import signal
import sys
import typing
from multiprocessing import connection as connection_lib

from slipway.launch.processes import (
  descendants,
  lean_tensorflow,
  node_process,
  signals,
  tmpfs_directory,
)

# Names of the modules of `slipway.launch.nodes` to import.
_NODE_MODULES = (
  "evaluator_node",
  "proxy",
  "replay",
  "trainer_node",
  "worker_node",
)
# Longest text in bytes of a node's error, as much as a pipe holds.
_ERROR_BYTES = 2**16


class NodeEnd(typing.NamedTuple):
  """The end of a node's process.

  Attributes:
    pid: pid of the process.
    status: exit status; a negative value is the negated number of the signal
      that ended the process.
    error: text of the error that ended it, as `failures.to_text` returns, or
      empty.
  """

  pid: int
  status: int
  error: str


def serve(descriptor: int) -> typing.NoReturn:
  """Imports the modules of all nodes, and forks nodes for the launcher.

  When the launcher has ended, all nodes and what they have started are killed.

  Args:
    descriptor: descriptor of the connection to the launcher.
  """
  launcher = connection_lib.Connection(descriptor)
  signals.outlive()
  with lean_tensorflow.paused_garbage_collection():
    lean_tensorflow.import_tensorflow()
    for name in _NODE_MODULES:
      importlib.import_module(f"slipway.launch.nodes.{name}")
  # The garbage collector writes to every object that it visits, which would
  # copy the shared memory in each node. Imports leave it nothing to collect.
  gc.freeze()
  # Each end of a child writes a byte, which ends the wait below.
  ended, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
  signal.signal(signal.SIGCHLD, lambda number, frame: None)
  signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
  errors: dict[int, int] = {}  # read end of the pipe with its error, by pid
  with contextlib.suppress(EOFError, ConnectionError):  # the launcher has ended
    launcher.send("ready")
    while True:
      ready = connection_lib.wait([launcher, ended])
      if ended in ready:
        os.read(ended, _ERROR_BYTES)
        _report_ends(launcher, errors)
      if launcher in ready:
        node, log, mark, path = launcher.recv()
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        if not (pid := os.fork()):
          try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours = (descriptor, ended, wakeup, read_end, *errors.values())
            for inherited in ours:
              os.close(inherited)
            sys.path[:] = path
            node_process.run(node, log, mark, write_end)
          finally:
            os._exit(1)
        os.close(write_end)
        errors[pid] = read_end
        launcher.send(pid)
  descendants.kill_marked({os.environ[descendants.RUN_VARIABLE]}, errors)
  tmpfs_directory.remove_own()
  os._exit(0)  # at once, as a regular exit with TensorFlow takes seconds


def _report_ends(
  launcher: connection_lib.Connection, errors: dict[int, int]
) -> None:
  """Sends the launcher the ends of the nodes that have ended."""
  for pid in tuple(errors):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
      read_end, text = errors.pop(pid), b""
      with contextlib.suppress(BlockingIOError):  # what it forked has the other
        text = os.read(read_end, _ERROR_BYTES)
      os.close(read_end)
      code = os.waitstatus_to_exitcode(status)
      launcher.send(NodeEnd(pid, code, text.decode(errors="replace")))
