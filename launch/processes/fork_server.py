"""The fork server: one process that imports, and that all nodes fork from."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from multiprocessing import forkserver, resource_tracker, util
from unittest import mock

import psutil
from absl import logging

from slipway.launch.processes import descendants, failures, node_process

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["__main__", "slipway.launch.processes.preload"]
_UNKNOWN = 255  # exit status of a process that another one has reaped

_KILLED_WITHIN_S = 5.0
_LOOK_S = 0.01

_environment: dict[str, str] = {}
# Children that `kill_left` leaves alone: those from before the server, and any
# that could not be killed.
_spared: set[psutil.Process] = set()


@contextlib.contextmanager
def running(environment: Mapping[str, str]) -> Iterator[None]:
  """Lets the server begin to import; ends it at the end, whatever it does.

  Args:
    environment: variables of its process, and so of all nodes, besides this
      one's.
  """
  _environment.clear()
  _environment.update(environment)
  _spared.clear()
  _spared.update(psutil.Process().children())
  # A server that another part of the program has started would be used.
  forkserver._forkserver._stop()
  CONTEXT.set_forkserver_preload(_PRELOADED)
  descendants.adopt()
  try:
    _start()
    yield
  finally:
    _stop()
    kill_left(())
    descendants.adopt(False)


def restart_if_ended() -> str:
  """Starts the server again if it has ended; the nodes live on.

  Returns:
    How it ended; '': it has not.
  """
  server = forkserver._forkserver
  if server._forkserver_pid is None:
    return ""
  pid, status = os.waitpid(server._forkserver_pid, os.WNOHANG)
  if not pid:
    return ""
  _forget_server()
  _start()
  code = os.waitstatus_to_exitcode(status)
  if code < 0:
    return f"was ended by {failures.name_signal(-code)}"
  return f"ended with exit status {code}"


def poll_orphan(pid: int) -> int | None:
  """Returns the exit status of a node whose server has ended; None: it runs.

  Args:
    pid: of the node, which this process has adopted.
  """
  try:
    ended, status = os.waitpid(pid, os.WNOHANG)
  except ChildProcessError:  # its server is just about to end
    return None if psutil.pid_exists(pid) else _UNKNOWN
  return os.waitstatus_to_exitcode(status) if ended else None


def kill_left(nodes: Collection[int]) -> None:
  """Kills the processes that nodes have left, such as an environment's.

  Each node adopts the orphans among its descendants, so what this process
  adopts is what a node that has ended, or a server, left. A process that does
  not end, such as one that waits for a disk, is logged and left alone.

  Args:
    nodes: processes of the nodes that are alive.
  """
  known = {
    *nodes,
    forkserver._forkserver._forkserver_pid,
    resource_tracker._resource_tracker._pid,
  }
  deadline_s = time.monotonic() + _KILLED_WITHIN_S
  while left := _adopted(known):
    if time.monotonic() > deadline_s:
      pids = [child.pid for child in left]
      logging.error("processes %s could not be killed, and are left", pids)
      _spared.update(left)
      return
    descendants.kill_and_wait(left)
    time.sleep(_LOOK_S)


def _adopted(known: Collection[int | None]) -> list[psutil.Process]:
  """Returns children that are neither known nor started by this process."""
  found = [
    child
    for child in psutil.Process().children()
    if child.pid not in known and child not in _spared
  ]
  if not found:
    return []
  started = descendants.started_pids()
  return [child for child in found if child.pid not in started]


def _start() -> None:
  with mock.patch.dict(os.environ, _environment), _signals_kept_away():
    resource_tracker.ensure_running()
    # Again: the tracker has let some of them through.
    with _signals_kept_away():
      forkserver.ensure_running()


def _stop() -> None:
  # Otherwise all that ends or goes a moment after this process does, and is
  # found by who looks.
  pid = forkserver._forkserver._forkserver_pid
  if pid is not None:
    # It would first import to the end. A node is one of those whose start was
    # interrupted.
    with contextlib.suppress(psutil.NoSuchProcess):
      descendants.kill([psutil.Process(pid)])
    _reap(pid)
    _forget_server()
  tracker = resource_tracker._resource_tracker
  if tracker._fd is not None:
    # It ends once no process has the other end of its pipe. A node that could
    # not be killed has it.
    os.close(tracker._fd)
    if not _reap(tracker._pid):
      os.kill(tracker._pid, signal.SIGKILL)
      _reap(tracker._pid)
    tracker._fd = tracker._pid = None
  util._run_finalizers()
  multiprocessing.current_process()._config.pop("tempdir", None)


def _forget_server() -> None:
  """Makes room for another server once this one has ended."""
  server = forkserver._forkserver
  os.close(server._forkserver_alive_fd)
  server._forkserver_address = None
  server._forkserver_alive_fd = None
  server._forkserver_pid = None


def _reap(pid: int) -> bool:
  """Waits a while for the end of a child; returns whether it has ended."""
  deadline_s = time.monotonic() + _KILLED_WITHIN_S
  while not os.waitpid(pid, os.WNOHANG)[0]:
    if time.monotonic() > deadline_s:
      return False
    time.sleep(_LOOK_S)
  return True


@contextlib.contextmanager
def _signals_kept_away() -> Iterator[None]:
  """Keeps signals from the server and its nodes until they can take them.

  The server ignores a group's signals once it has imported that; a node takes
  `HURRY` once it has a handler. The resource tracker never takes any.
  """
  numbers = {*node_process.GROUP_SIGNALS, node_process.HURRY}
  before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
