"""Node process: what a node's process is besides the node."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from multiprocessing import forkserver

import cloudpickle
from absl import flags, logging
from launchpad.launch import worker_manager

from environments import user_code
from launch.processes import failures

# Tells a node to end at once, in whatever order.
HURRY = signal.SIGUSR2

# Exit status of a node that has ended as it should. Not 0: with that, C code or
# a thread of the user's can end a process that should have continued.
ENDED = 64

# What a terminal or a batch system sends to all processes of a group: the
# launcher's to act on.
GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
_LOOK_S = 0.5
# Seconds after its parent's death in which a node may still save and end.
_ORPHAN_GRACE_S = 20


def run(function: bytes, log: str, environment: Mapping[str, str]) -> None:
  """Is a node until it ends; ends the process with its exit status.

  Args:
    function: of the node, by cloudpickle.
    log: file, which takes what it prints after what a predecessor printed.
    environment: variables of this process besides those it has.
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
  threading.Thread(target=_end_with_parent, name="orphan", daemon=True).start()
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
  status = 1
  try:
    with user_code.exits_raised():
      cloudpickle.loads(function)()
    status = ENDED
  except BaseException as error:
    failures.tell(error)
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    # What was to be saved is saved. Taking TensorFlow down would cost seconds,
    # and abort where a thread is still in its C++.
    os._exit(status)


def _print_to(log: str) -> None:
  descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
  os.dup2(descriptor, 1)
  os.dup2(descriptor, 2)
  os.close(descriptor)
  sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
  sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def _end_with_parent() -> None:
  parent = os.getppid()  # the fork server, which ends with its runner
  while parent != 1 and os.getppid() == parent:
    time.sleep(_LOOK_S)
  # By the kernel, so that no thread that holds on to Python's lock is waited
  # for. Until then the control node may end the run in order.
  signal.alarm(_ORPHAN_GRACE_S)
