"""Fork server: a process with all imports, from which nodes are forked."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from multiprocessing import forkserver, resource_tracker, util

import psutil
from absl import logging

from slipway.launch.processes import descendants, failures, node_process

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["__main__", "slipway.launch.processes.preload"]
_UNKNOWN = 255  # exit status of a process that another process has reaped

_KILL_TIMEOUT_S = 5.0
_POLL_S = 0.01

_environment: dict[str, str] = {}
# Children that `kill_orphans` ignores: those from before the server, and those
# that could not be killed.
_spared: set[psutil.Process] = set()


@contextlib.contextmanager
def run_server(environment: Mapping[str, str]) -> Iterator[None]:
  """Starts the server, which then imports; kills it at the end.

  Args:
    environment: environment variables of the server and so of all nodes, in
      addition to those of this process.
  """
  _environment.clear()
  _environment.update(environment)
  _spared.clear()
  _spared.update(psutil.Process().children())
  # Otherwise a server that other code has started would be used. There is no
  # public way to stop one, or (below) to learn its pid and replace it.
  forkserver._forkserver._stop()
  CONTEXT.set_forkserver_preload(_PRELOADED)
  descendants.adopt()
  try:
    _start()
    yield
  finally:
    _stop()
    kill_orphans(())
    descendants.adopt(False)


def restart_if_ended() -> str:
  """Restarts the server if it has ended; nodes continue without it.

  Returns:
    A text about how the server ended; '': it has not ended.
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
    pid: process of the node, which this process has adopted.
  """
  try:
    ended, status = os.waitpid(pid, os.WNOHANG)
  except ChildProcessError:  # its server has not quite ended
    return None if psutil.pid_exists(pid) else _UNKNOWN
  return os.waitstatus_to_exitcode(status) if ended else None


def kill_orphans(nodes: Collection[int]) -> None:
  """Kills processes that ended nodes left behind, such as an environment's.

  Each node adopts its own orphans, so this process only adopts children of
  ended nodes and servers. A process that does not end, such as one that waits
  for a disk, is logged and then ignored.

  Args:
    nodes: pids of the live nodes.
  """
  known = {
    *nodes,
    forkserver._forkserver._forkserver_pid,
    resource_tracker._resource_tracker._pid,
  }
  deadline_s = time.monotonic() + _KILL_TIMEOUT_S
  while left := _adopted(known):
    if time.monotonic() > deadline_s:
      pids = [child.pid for child in left]
      logging.error("processes %s could not be killed, and are left", pids)
      _spared.update(left)
      return
    descendants.kill_and_wait(left)
    time.sleep(_POLL_S)


def _adopted(known: Collection[int | None]) -> list[psutil.Process]:
  """Returns adopted children whose pids are not known."""
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
  before = {name: os.environ.get(name) for name in _environment}
  os.environ.update(_environment)  # the server inherits them
  try:
    with _block_signals():
      resource_tracker.ensure_running()
      with _block_signals():  # again, because the tracker unblocks some of them
        forkserver.ensure_running()
  finally:
    for name, value in before.items():
      if value is None:
        del os.environ[name]
      else:
        os.environ[name] = value


def _stop() -> None:
  # Otherwise processes and files would outlast this process for a moment.
  pid = forkserver._forkserver._forkserver_pid
  if pid is not None:
    # Killed, because it would first import to the end. Its children are nodes
    # whose start was interrupted.
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
  deadline_s = time.monotonic() + _KILL_TIMEOUT_S
  while not os.waitpid(pid, os.WNOHANG)[0]:
    if time.monotonic() > deadline_s:
      return False
    time.sleep(_POLL_S)
  return True


@contextlib.contextmanager
def _block_signals() -> Iterator[None]:
  """Blocks signals in processes that are started here.

  The server ignores group signals after its imports; a node unblocks
  `SHUTDOWN_SIGNAL` once it has a handler. The resource tracker keeps them
  blocked.
  """
  numbers = {*node_process.GROUP_SIGNALS, node_process.SHUTDOWN_SIGNAL}
  before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
