"""Node process: prepares a forked process, runs a node in it, and exits."""

import contextlib
import io
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import typing
from collections.abc import Mapping
from multiprocessing import forkserver

import cloudpickle
import psutil
from absl import flags, logging
from launchpad.launch import worker_manager

from slipway.environments import user_code
from slipway.launch.display import standard_streams
from slipway.launch.processes import (
  descendants,
  failures,
  private_network,
  signals,
  tmpfs_directory,
)

# Exit status of a node that has ended normally. It is not 0, because C code or
# a thread of user code may end a process too early with status 0.
NORMAL_EXIT_STATUS = 64

# Seconds in which a node may kill its descendants once its runner has died.
_KILL_GRACE_S = 8
_REAP_PERIOD_S = 10.0  # seconds between two searches for zombies


def run(
  function: bytes,
  log: str,
  environment: Mapping[str, str],
  network: private_network.PrivateNetwork | None,
) -> None:
  """Runs a node in this process until the node ends, then exits.

  The exit status is `NORMAL_EXIT_STATUS`, or 1 if the node has raised an error.

  Args:
    function: the node's function, pickled by cloudpickle.
    log: path of the node's log, to which all output is appended.
    environment: additional environment variables of this process.
    network: private network to enter, or None to stay in the machine's network.
  """
  # These signals are blocked until all handlers are set: Launchpad's own
  # handlers, which `WorkerManager` installs below, kill this process a second
  # after a Ctrl-C.
  signal.pthread_sigmask(signal.SIG_BLOCK, signals.GROUP_SIGNALS)
  # A fork inherits the pipe that keeps the server alive, which only the runner
  # should hold. There is no public way to close it.
  os.close(forkserver._forkserver._forkserver_alive_fd)
  _redirect_output(log)
  os.environ.update(environment)
  tempfile.tempdir = None  # so that TMPDIR is read again
  if network is not None:
    network.enter()  # only possible without a second thread
  threading.Thread(target=_end_with_runner, name="orphan", daemon=True).start()
  descendants.adopt()
  flags.FLAGS.mark_as_parsed()  # Launchpad uses the defaults of its flags
  logging.use_absl_handler()
  logging.set_verbosity(logging.INFO)
  # The manager provides `lp.stop_event`. Its signal handlers are replaced.
  manager = worker_manager.WorkerManager(register_in_thread=True)
  for number in signals.GROUP_SIGNALS:
    signal.signal(number, signal.SIG_IGN)
  signal.signal(signal.SIGALRM, signal.SIG_DFL)
  signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.GROUP_SIGNALS)
  threading.Thread(
    target=_wait_for_shutdown,
    args=(manager.stop_event(),),
    name="shutdown",
    daemon=True,
  ).start()
  threading.excepthook = _end_by_user_error
  status = 1
  try:
    with user_code.exit_as_error():
      cloudpickle.loads(function)()
    status = NORMAL_EXIT_STATUS
  except BaseException as error:
    failures.print_error(error)
  finally:
    # All state is saved by now. A regular exit of a process with TensorFlow
    # takes seconds, and aborts if a thread is still in TensorFlow's C++ code.
    _exit(status)


def _end_by_user_error(args: threading.ExceptHookArgs) -> None:
  """Ends this process if a thread has raised a `UserCodeError`.

  This function is the process's `threading.excepthook`. The process ends at
  once, because the main thread may hang in user code.
  """
  if isinstance(args.exc_value, user_code.UserCodeError):
    failures.print_error(args.exc_value)
    _exit(1)
  threading.__excepthook__(args)


def _exit(status: int) -> typing.NoReturn:
  """Kills the descendants, flushes the output, and exits this process.

  Exit handlers do not run, so user code cannot prevent the exit.
  """
  try:
    descendants.kill_children()
  finally:
    standard_streams.exit_process(status)


class _Log(io.FileIO):
  """A log file that drops output without an error while the disk is full.

  The number of dropped bytes is written to the log once there is space again.
  """

  _dropped_bytes = 0

  def write(self, data: typing.Any) -> int:
    """Writes or drops bytes; returns the number of bytes written or dropped."""
    try:
      if self._dropped_bytes:
        super().write(b"[%d bytes were not written]\n" % self._dropped_bytes)
        self._dropped_bytes = 0
      return super().write(data)
    except OSError:
      self._dropped_bytes += len(data)
      return len(data)


def _redirect_output(log: str) -> None:
  """Appends stdout and stderr to a log, also those of C code."""
  try:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
  except OSError:  # the file is missing because the disk was full
    descriptor = os.open(os.devnull, os.O_WRONLY)
  os.dup2(descriptor, 1)
  os.dup2(descriptor, 2)
  os.close(descriptor)
  sys.stdout = _open_log(1)
  sys.stderr = _open_log(2)


def _open_log(descriptor: int) -> typing.TextIO:
  """Returns a text stream that writes to a log, flushed at each line."""
  binary = io.BufferedWriter(_Log(descriptor, "w", closefd=False))
  return io.TextIOWrapper(
    binary, errors="backslashreplace", line_buffering=True
  )


def _wait_for_shutdown(stop_event: threading.Event) -> None:
  """Sets an event at the shutdown signal; the function of thread 'shutdown'.

  A handler would wait until the main thread returns from C++ code. The fork
  server blocks the signal, so that no other thread receives it.
  """
  signal.sigwait([signals.SHUTDOWN_SIGNAL])
  stop_event.set()


def _end_with_runner() -> None:
  """Ends this process, and removes the run's files in memory, with its runner.

  Until the runner's death, it reaps the zombies that this process has adopted.
  It is the function of the thread 'orphan'.
  """
  runner = multiprocessing.parent_process()
  assert runner is not None
  reaper = descendants.Reaper()
  while runner.is_alive():
    runner.join(_REAP_PERIOD_S)
    with contextlib.suppress(psutil.Error):
      reaper.reap()
  # The alarm ends the process even if a thread never releases Python's global
  # lock.
  signal.alarm(_KILL_GRACE_S)
  tmpfs_directory.remove_own()
  _exit(1)
