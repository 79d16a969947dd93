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

from slipway.launch.processes import descendants, failures, signals, threads

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["__main__", "slipway.launch.processes.preload"]
# Exit status that is reported for a process whose own status is lost, because
# another process has reaped it.
_UNKNOWN_STATUS = 255

_KILL_TIMEOUT_S = 5.0
# Rounds in which orphans are killed that start others faster than they die.
_KILL_ROUNDS = 100
_POLL_S = 0.01

_environment: dict[str, str] = {}  # variables of the server, from `run_server`
# Children that `kill_orphans` ignores: processes that were started before the
# server, and processes that could not be killed.
_spared: set[psutil.Process] = set()


def make_environment_variables(memory_dir: str) -> dict[str, str]:
  """Returns the environment variables of the server.

  They configure the libraries that the server imports. Each node adds variables
  of its own.

  Args:
    memory_dir: the run's tmpfs directory on this machine.
  """
  return {
    **threads.make_environment_variables("worker", learner_threads=1),
    "TF_CPP_MIN_LOG_LEVEL": "1",  # omits informational log lines
    "PYTHONUNBUFFERED": "1",  # so that a killed process has written its log
    "TMPDIR": memory_dir,
  }


@contextlib.contextmanager
def run_server(environment: Mapping[str, str]) -> Iterator[None]:
  """Context in which the fork server runs; it is killed at the end.

  The server imports what `launch/processes/preload.py` imports, before it forks
  its first node.

  Args:
    environment: environment variables of the server, which all nodes inherit,
      in addition to the variables of this process.
  """
  _environment.clear()
  _environment.update(environment)
  _spared.clear()
  _spared.update(psutil.Process().children())
  # A server that other code has started lacks these imports and variables, so
  # it is stopped. multiprocessing has no public way to stop a server, to get
  # its pid, or to replace it; so this module uses private attributes.
  forkserver._forkserver._stop()
  CONTEXT.set_forkserver_preload(_PRELOADED)
  descendants.adopt()
  try:
    _start_server()
    yield
  finally:
    _stop_server()
    kill_orphans(nodes=())
    descendants.adopt(adopts=False)


def restart_if_ended() -> str:
  """Restarts the server if it has ended.

  The nodes that the ended server forked continue to run.

  Returns:
    A text about how the server ended, such as 'was ended by SIGKILL'; empty if
    it has not ended.
  """
  server = forkserver._forkserver
  if server._forkserver_pid is None:
    return ""
  pid, status = os.waitpid(server._forkserver_pid, os.WNOHANG)
  if not pid:
    return ""
  _forget_server()
  _start_server()
  code = os.waitstatus_to_exitcode(status)
  if code < 0:
    return f"was ended by {failures.name_signal(-code)}"
  return f"ended with exit status {code}"


def poll_orphan(pid: int) -> int | None:
  """Returns the exit status of a node whose fork server has ended.

  Args:
    pid: pid of the node, which this process adopts as the server ends.

  Returns:
    The exit status, or None if the node still runs.
  """
  try:
    ended, status = os.waitpid(pid, os.WNOHANG)
  except ChildProcessError:  # still a child of the server, which is ending
    return None if psutil.pid_exists(pid) else _UNKNOWN_STATUS
  return os.waitstatus_to_exitcode(status) if ended else None


def kill_orphans(nodes: Collection[int]) -> None:
  """Kills processes that ended nodes left behind.

  An environment may have started them, for example. A live node adopts the
  orphans of its own descendants, so this process only adopts the children of
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
  # The children of a killed orphan are the next round's orphans.
  for _ in range(_KILL_ROUNDS):
    orphans = _find_orphans(known)
    if not orphans:
      return
    for orphan in orphans:
      with contextlib.suppress(psutil.Error):  # it has ended, or is sudo's
        orphan.kill()
    _, left = psutil.wait_procs(orphans, _KILL_TIMEOUT_S)
    if left:
      pids = [orphan.pid for orphan in left]
      logging.error("processes %s could not be killed, and are left", pids)
      _spared.update(left)
  logging.error(
    "what ended nodes left behind still starts processes after %d rounds of "
    "kills; those that run now are killed when the next node ends",
    _KILL_ROUNDS,
  )


def _find_orphans(known: Collection[int | None]) -> list[psutil.Process]:
  """Returns the adopted children of this process, except for known ones.

  Args:
    known: pids of children to leave out.
  """
  found = [
    child
    for child in psutil.Process().children()
    if child.pid not in known and child not in _spared
  ]
  if not found:
    return []
  started = descendants.started_pids()
  return [child for child in found if child.pid not in started]


def _start_server() -> None:
  """Starts the server and multiprocessing's resource tracker."""
  before = {name: os.environ.get(name) for name in _environment}
  os.environ.update(_environment)  # the server inherits them
  try:
    with _block_signals():
      resource_tracker.ensure_running()
      # Blocked again, because the tracker's start unblocks some of them.
      with _block_signals():
        forkserver.ensure_running()
  finally:
    for name, value in before.items():
      if value is None:
        del os.environ[name]
      else:
        os.environ[name] = value


def _stop_server() -> None:
  """Stops the server and the resource tracker, and removes their files.

  Without this, they would outlast this process for a moment.
  """
  pid = forkserver._forkserver._forkserver_pid
  if pid is not None:
    # The server is killed, because it would otherwise first complete its
    # imports. Its children are nodes whose start was interrupted.
    with contextlib.suppress(psutil.NoSuchProcess):
      descendants.kill([psutil.Process(pid)])
    _wait_for_end(pid)
    _forget_server()
  tracker = resource_tracker._resource_tracker
  if tracker._fd is not None:
    # The tracker ends once no process holds the other end of its pipe. A node
    # that could not be killed still holds it; then the tracker is killed.
    os.close(tracker._fd)
    if not _wait_for_end(tracker._pid):
      os.kill(tracker._pid, signal.SIGKILL)
      _wait_for_end(tracker._pid)
    tracker._fd = tracker._pid = None
  util._run_finalizers()
  multiprocessing.current_process()._config.pop("tempdir", None)


def _forget_server() -> None:
  """Clears multiprocessing's record of a fork server that has ended.

  The next start then makes a new server.
  """
  server = forkserver._forkserver
  os.close(server._forkserver_alive_fd)
  server._forkserver_address = None
  server._forkserver_alive_fd = None
  server._forkserver_pid = None


def _wait_for_end(pid: int) -> bool:
  """Waits up to `_KILL_TIMEOUT_S` for a child; returns whether it has ended."""
  deadline_s = time.monotonic() + _KILL_TIMEOUT_S
  while not os.waitpid(pid, os.WNOHANG)[0]:
    if time.monotonic() > deadline_s:
      return False
    time.sleep(_POLL_S)
  return True


@contextlib.contextmanager
def _block_signals() -> Iterator[None]:
  """Context in which started processes inherit a mask of blocked signals.

  Otherwise a signal could kill them before they handle it. The server ignores
  group signals after its imports, and a node unblocks `SHUTDOWN_SIGNAL` once it
  has a handler. The resource tracker keeps the signals blocked.
  """
  numbers = {*signals.GROUP_SIGNALS, signals.SHUTDOWN_SIGNAL}
  before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
