"""Node process: prepares a forked process, runs a node in it, and exits."""

import contextlib
import io
import os
import pathlib
import signal
import sys
import tempfile
import threading
import typing
from collections.abc import Mapping

import cloudpickle
from absl import logging

from slipway.environments import user_code
from slipway.launch.display import standard_streams
from slipway.launch.nodes import link
from slipway.launch.processes import (
  descendants,
  failures,
  private_network,
  signals,
)

# Exit status of a node that has ended normally. It is not 0, because C code or
# a thread of user code may end a process too early with status 0.
NORMAL_EXIT_STATUS = 64


class PreparedNode(typing.NamedTuple):
  """A node that can be run in any process of this machine, any number of times.

  Attributes:
    name: the node's name, such as 'worker/0'.
    function: the node's function, pickled by cloudpickle.
    environment: additional environment variables of the node's process.
    network: private network that the process enters, or None to stay in the
      machine's network.
  """

  name: str
  function: bytes
  environment: Mapping[str, str]
  network: private_network.PrivateNetwork | None = None

  @property
  def role(self) -> str:
    """The node's role, such as 'worker'."""
    return self.name.partition("/")[0]


def run(
  node: PreparedNode, log: pathlib.Path, mark: str, errors: int
) -> typing.NoReturn:
  """Runs a node in this process until the node ends, then exits.

  The exit status is `NORMAL_EXIT_STATUS`, or 1 if the node has raised an error.

  Args:
    log: path of the node's log, to which all output is appended.
    mark: identifies this process, as for `descendants.kill_marked`.
    errors: write end of a pipe for the text of the error.
  """
  status, server = 1, os.getppid()
  try:
    os.setsid()  # identifies what this process forks
    _wait_for_turns()
    os.environ[descendants.NODE_VARIABLE] = mark
    _redirect_output(log)
    os.environ.update(node.environment)
    tempfile.tempdir = None  # so that TMPDIR is read again
    if node.network is not None:
      node.network.enter()  # only possible without a second thread
    # Not before the network, whose user namespace resets it.
    descendants.end_with_parent(signal.SIGKILL)
    signals.reset_in_forks()
    if os.getppid() != server:
      os._exit(1)  # the server ended before
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    stop_event = threading.Event()
    link.own_stop_event.set(stop_event)
    threading.Thread(
      target=_wait_for_shutdown,
      args=(stop_event,),
      name="shutdown",
      daemon=True,
    ).start()

    def end_by_user_error(args: threading.ExceptHookArgs) -> None:
      """Is `threading.excepthook`: ends the process at once."""
      # The main thread may hang in user code.
      if not isinstance(args.exc_value, user_code.UserCodeError):
        threading.__excepthook__(args)
        return
      _report(args.exc_value, errors)
      standard_streams.exit_process(1)

    threading.excepthook = end_by_user_error
    with user_code.exit_as_error():
      cloudpickle.loads(node.function)()
    status = NORMAL_EXIT_STATUS
  except BaseException as error:
    _report(error, errors)
  finally:
    # All state is saved by now. A regular exit of a process with TensorFlow
    # takes seconds, and aborts if a thread is still in TensorFlow's C++ code.
    standard_streams.exit_process(status)


def _wait_for_turns() -> None:
  """Lets no thread of this process interrupt another when it is woken."""
  # A transition wakes ten threads on its way. With few cores, each would
  # interrupt the learner: a quarter of the kernel's processor time in a run.
  if os.sched_getscheduler(0) == os.SCHED_OTHER:  # else it is the user's choice
    with contextlib.suppress(OSError):  # containers may forbid it
      os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _report(error: BaseException, errors: int) -> None:
  """Prints the error that ends this process, and sends it to the runner."""
  text = failures.to_text(error)
  with contextlib.suppress(OSError):  # it is longer than the pipe holds
    os.write(errors, text.encode(errors="replace"))
  sys.stderr.write(f"This node failed: {text}")


class _Log(io.FileIO):
  """A log file that drops output without an error while the disk is full."""

  def write(self, data: typing.Any) -> int:
    """Writes or drops bytes; returns the number of bytes written or dropped."""
    try:
      return super().write(data)
    except OSError:
      return len(data)


def _redirect_output(log: pathlib.Path) -> None:
  """Appends stdout and stderr to a log, also those of C code."""
  try:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
  except OSError:  # the file is missing because the disk was full
    descriptor = os.open(os.devnull, os.O_WRONLY)
  os.dup2(descriptor, 1)
  os.dup2(descriptor, 2)
  os.close(descriptor)
  sys.stdout, sys.stderr = _open_log(1), _open_log(2)


def _open_log(descriptor: int) -> typing.TextIO:
  """Returns a text stream that writes to a log, flushed at each line."""
  binary = io.BufferedWriter(_Log(descriptor, "w", closefd=False))
  return io.TextIOWrapper(
    binary, errors="backslashreplace", line_buffering=True
  )


def _wait_for_shutdown(stop_event: threading.Event) -> None:
  """Sets an event at the shutdown signal; the function of thread 'shutdown'."""
  # A handler would wait until the main thread returns from C++ code. The fork
  # server blocks the signal, so that no other thread receives it.
  signal.sigwait([signals.SHUTDOWN_SIGNAL])
  stop_event.set()
