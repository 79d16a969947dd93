"""Fork server: a process with all modules imported, which forks the nodes."""

import contextlib
import multiprocessing
import os
import signal
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from multiprocessing import forkserver, resource_tracker, util

import psutil
from absl import logging

from slipway.launch.processes import descendants, failures, processors, signals

# The multiprocessing context whose processes are forked from the fork server.
CONTEXT = multiprocessing.get_context("forkserver")
# Names of the modules that the server imports before its first fork.
_PRELOADED = ["__main__", "slipway.launch.processes.preload"]
# Exit status that multiprocessing reports for a process whose own status is
# lost, because its fork server has ended.
LOST_STATUS = 255

_KILL_TIMEOUT_S = 5.0  # seconds that a killed process may take to end
# Largest number of times that `kill_orphans` searches for orphans. The limit
# matters only if orphans start further processes faster than they are killed.
_KILL_ROUNDS = 100
_POLL_PERIOD_S = 0.01  # seconds between two checks whether a process has ended

# Environment variable that all processes of one `run_server` have in common.
_RUN_VARIABLE = "SLIPWAY_RUN"
# Environment variables of the server, set by `run_server`.
_environment: dict[str, str] = {}
# Children of this process that `kill_orphans` ignores: processes that were
# started before the server, and processes that could not be killed.
_spared: set[psutil.Process] = set()


def make_environment_variables(memory_dir: str) -> dict[str, str]:
  """Returns the environment variables with which the fork server is started.

  They configure the libraries that the server imports. Each node then adds
  further variables.

  Args:
    memory_dir: the run's tmpfs directory on this machine.
  """
  return {
    **processors.make_thread_variables(1),
    **processors.NO_GPU,
    "TF_CPP_MIN_LOG_LEVEL": "1",  # omits informational log lines
    # Without it, TensorFlow's import of distutils imports setuptools (0.2 s).
    "SETUPTOOLS_USE_DISTUTILS": "stdlib",
    "PYTHONUNBUFFERED": "1",  # so that a killed process has written its log
    "TMPDIR": memory_dir,
  }


@contextlib.contextmanager
def run_server(environment: Mapping[str, str]) -> Iterator[None]:
  """Runs the fork server for the duration of a `with` block, then kills it.

  Processes that the nodes have left behind are killed, too. Before its first
  fork, the server imports the modules of `launch/processes/preload.py`.

  Args:
    environment: environment variables of the server, which all nodes inherit,
      in addition to the variables of this process.
  """
  _environment.clear()
  _environment.update(environment)
  _environment[_RUN_VARIABLE] = uuid.uuid4().hex
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
    descendants.adopt(enabled=False)


def start_if_ended() -> None:
  """Starts the fork server again if `find_end` has noticed its end."""
  if not is_running():
    _start_server()


def is_running() -> bool:
  """Returns whether the fork server runs, as far as `find_end` has noticed."""
  return forkserver._forkserver._forkserver_pid is not None


def find_end(must_end: bool = False) -> str:
  """Returns how the fork server has ended, or '' if it still runs.

  The nodes that the ended server has forked continue, but their exit statuses
  are lost.

  Args:
    must_end: whether to wait until the server has ended, at most 5 s.
  """
  pid = forkserver._forkserver._forkserver_pid
  if pid is None:
    return ""
  deadline_s = time.monotonic() + _KILL_TIMEOUT_S * must_end
  try:
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
      if time.monotonic() >= deadline_s:
        return ""
      time.sleep(_POLL_PERIOD_S)
    code = os.waitstatus_to_exitcode(ended[1])
  except ChildProcessError:  # user code ignores SIGCHLD, so the kernel reaps
    code = LOST_STATUS
  _forget_server()
  if code < 0:
    return f"was ended by {failures.name_signal(-code)}"
  return f"ended with exit status {code}"


def kill_orphans(nodes: Collection[int]) -> None:
  """Kills the processes that ended nodes have left behind.

  Such a process was started by an environment, for example. A live node adopts
  its own orphaned descendants. So this process adopts only those of nodes and
  fork servers that have ended. If a killed process does not end, because it
  waits for a disk, for example, it is logged and then ignored.

  Args:
    nodes: pids of the live nodes, which are not killed.
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
    "processes that ended nodes have left behind still start others after %d "
    "rounds of kills; those that run now are killed when the next node ends",
    _KILL_ROUNDS,
  )


def _find_orphans(known: Collection[int | None]) -> list[psutil.Process]:
  """Returns the adopted children of this process, except for known ones.

  Process 1 of a container adopts all orphans, also those of programs that are
  executed in the container from outside. Then only the children that have the
  run's environment variable are returned.
  """
  found = [
    child
    for child in psutil.Process().children()
    if child.pid not in known
    and child not in _spared
    and (os.getpid() != 1 or _belongs_to_run(child))
  ]
  if not found:
    return []
  started = descendants.started_pids()
  return [child for child in found if child.pid not in started]


def _belongs_to_run(process: psutil.Process) -> bool:
  """Returns whether a process descends from the run's fork servers.

  It is True for a zombie, which can't be checked, and only has to be reaped.
  """
  try:
    if process.status() == psutil.STATUS_ZOMBIE:
      return True
    run = process.environ().get(_RUN_VARIABLE)
  except psutil.Error:  # it has ended, or belongs to another user
    return False
  return run == _environment.get(_RUN_VARIABLE)


def _start_server() -> None:
  """Starts the fork server and multiprocessing's resource tracker."""
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
  """Stops fork server and resource tracker, and removes their files.

  Otherwise these processes would outlive this process for a moment.
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

  Without the record, `_start_server` starts a new server.
  """
  server = forkserver._forkserver
  os.close(server._forkserver_alive_fd)
  server._forkserver_address = None
  server._forkserver_alive_fd = None
  server._forkserver_pid = None


def _wait_for_end(pid: int) -> bool:
  """Waits up to 5 s for the end of a child process, and reaps the child."""
  deadline_s = time.monotonic() + _KILL_TIMEOUT_S
  # There is no child if user code ignores SIGCHLD: the kernel has reaped it.
  with contextlib.suppress(ChildProcessError):
    while not os.waitpid(pid, os.WNOHANG)[0]:
      if time.monotonic() > deadline_s:
        return False
      time.sleep(_POLL_PERIOD_S)
  return True


@contextlib.contextmanager
def _block_signals() -> Iterator[None]:
  """Blocks the run's signals in processes that a `with` block starts.

  A started process inherits the blocked signals. Otherwise a signal could kill
  the process before it has a handler. The server ignores the group signals
  after its imports, and a thread of each node waits for `SHUTDOWN_SIGNAL`. The
  resource tracker keeps the signals blocked.
  """
  numbers = {*signals.GROUP_SIGNALS, signals.SHUTDOWN_SIGNAL}
  before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
