"""The fork server: one process that imports, and that all nodes fork from."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver, resource_tracker, util
from unittest import mock

import psutil

from launch.processes import node_process

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["__main__", "launch.processes.preload"]
_GONE_WITHIN_S = 5.0


@contextlib.contextmanager
def running(environment: Mapping[str, str]) -> Iterator[None]:
  """Lets the server begin to import; ends it at the end, whatever it does.

  Args:
    environment: variables of its process, and so of all nodes, besides this
      one's.
  """
  try:
    _start(environment)
    yield
  finally:
    _stop()


def _start(environment: Mapping[str, str]) -> None:
  # One that somebody else has started would be taken as it is.
  forkserver._forkserver._stop()
  CONTEXT.set_forkserver_preload(_PRELOADED)
  with mock.patch.dict(os.environ, environment), _signals_kept_away():
    resource_tracker.ensure_running()
    # Again: the tracker has let some of them through.
    with _signals_kept_away():
      forkserver.ensure_running()


def _stop() -> None:
  # Otherwise all that ends or goes a moment after this process does, and is
  # found by who looks.
  server = forkserver._forkserver
  if server._forkserver_pid is not None:
    _kill(server._forkserver_pid)
  server._stop()
  resource_tracker._resource_tracker._stop()
  util._run_finalizers()
  multiprocessing.current_process()._config.pop("tempdir", None)


def _kill(pid: int) -> None:
  """Kills the server, which would first import to the end, and its forks.

  A node is one of those whose start was interrupted: nobody else knows it.
  """
  with contextlib.suppress(psutil.NoSuchProcess):
    server = psutil.Process(pid)
    server.suspend()  # it forks no more
    forks = server.children()
    for process in (*forks, server):
      with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    psutil.wait_procs(forks, _GONE_WITHIN_S)


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
