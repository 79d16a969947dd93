"""Node process: what a node's process is besides the node."""

import contextlib
import io
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import typing
from collections.abc import Mapping
from multiprocessing import forkserver

import cloudpickle
import psutil
from absl import flags, logging
from launchpad.launch import worker_manager

from slipway.environments import user_code
from slipway.launch.processes import (
  descendants,
  failures,
  private_network,
  signals,
)

# Tells a node to end at once, in whatever order.
HURRY = signal.SIGUSR2

# Exit status of a node that has ended as it should. Not 0: with that, C code or
# a thread of the user's can end a process that should have continued.
ENDED = 64

# What a terminal or a batch system sends to all processes of a group: the
# launcher's to act on.
GROUP_SIGNALS = (*signals.ENDS, signal.SIGUSR1)
# Seconds after its runner's death in which a node may still save and end.
_ORPHAN_GRACE_S = 20
# Seconds after that in which it may kill what it started.
_KILL_GRACE_S = 8
_REAP_EVERY_S = 10.0


def run(
  function: bytes,
  log: str,
  environment: Mapping[str, str],
  network: private_network.PrivateNetwork | None = None,
) -> None:
  """Is a node until it ends; ends the process with its exit status.

  Args:
    function: of the node, by cloudpickle.
    log: file, which takes what it prints after what a predecessor printed.
    environment: variables of this process besides those it has.
    network: to enter; None: the process stays in the machine's.
  """
  # Until all handlers are ours: Launchpad sets its own on the way, which would
  # take a Ctrl-C for the order to kill this process a second later.
  signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)
  # Each fork holds the pipe that keeps its server alive: the runner's end alone
  # shall.
  os.close(forkserver._forkserver._forkserver_alive_fd)
  _print_to(log)
  os.environ.update(environment)
  tempfile.tempdir = None  # asks for TMPDIR again
  if network is not None:
    network.enter()  # before there is a second thread
  threading.Thread(target=_end_with_runner, name="orphan", daemon=True).start()
  descendants.adopt()
  flags.FLAGS.mark_as_parsed()  # Launchpad's: their defaults
  logging.use_absl_handler()
  logging.set_verbosity(logging.INFO)
  # For `lp.stop_event`. Its signal handlers are not ours: they kill.
  manager = worker_manager.WorkerManager(register_in_thread=True)
  for number in GROUP_SIGNALS:
    signal.signal(number, signal.SIG_IGN)
  signal.signal(signal.SIGALRM, signal.SIG_DFL)
  signal.signal(HURRY, lambda number, frame: manager.stop_event().set())
  signal.pthread_sigmask(signal.SIG_UNBLOCK, {HURRY, *GROUP_SIGNALS})
  threading.excepthook = _end_by_user_error
  status = 1
  try:
    with user_code.exit_as_error():
      cloudpickle.loads(function)()
    status = ENDED
  except BaseException as error:
    failures.tell(error)
  finally:
    # What was to be saved is saved. Taking TensorFlow down would cost seconds,
    # and abort where a thread is still in its C++.
    _exit(status)


def _end_by_user_error(args: threading.ExceptHookArgs) -> None:
  """Ends this process where a thread has found a fault of the user's code.

  The main thread may be in that code, and never return.
  """
  if isinstance(args.exc_value, user_code.UserCodeError):
    failures.tell(args.exc_value)
    _exit(1)
  threading.__excepthook__(args)


def _exit(status: int) -> typing.NoReturn:
  """Ends this process and all below it, whatever user code did to either."""
  try:
    for stream in (sys.stdout, sys.stderr):
      with contextlib.suppress(Exception):  # an environment may have closed it
        stream.flush()
    descendants.kill_and_wait(psutil.Process().children())
  finally:
    os._exit(status)


class _Log(io.FileIO):
  """A log whose full disk costs what is printed, not the node."""

  _dropped = 0  # bytes

  def write(self, data: typing.Any) -> int:
    try:
      if self._dropped:
        super().write(b"[%d bytes were not written]\n" % self._dropped)
        self._dropped = 0
      return super().write(data)
    except OSError:
      self._dropped += len(data)
      return len(data)


def _print_to(log: str) -> None:
  try:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
  except OSError:  # the disk was full when it was to be made
    descriptor = os.open(os.devnull, os.O_WRONLY)
  os.dup2(descriptor, 1)
  os.dup2(descriptor, 2)
  os.close(descriptor)
  sys.stdout = _open_log(1)
  sys.stderr = _open_log(2)


def _open_log(descriptor: int) -> typing.TextIO:
  binary = io.BufferedWriter(_Log(descriptor, "w", closefd=False))
  return io.TextIOWrapper(
    binary, errors="backslashreplace", line_buffering=True
  )


def _end_with_runner() -> None:
  runner = multiprocessing.parent_process()
  assert runner is not None
  reaper = descendants.Reaper()
  while runner.is_alive():
    runner.join(_REAP_EVERY_S)
    with contextlib.suppress(psutil.Error):
      reaper.reap()
  # The kernel ends a process of which a thread holds on to Python's lock. Until
  # then the control node may end the run in order.
  signal.alarm(_ORPHAN_GRACE_S + _KILL_GRACE_S)
  time.sleep(_ORPHAN_GRACE_S)
  _exit(1)
