"""Signals: handles the signals that stop a run or request a snapshot."""

import contextlib
import os
import signal
import typing
from collections.abc import Callable

# Signals that stop a run in order. A terminal or a batch system sends them to a
# whole process group.
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_READ_BYTES = 4_096  # more signals than are ever pending


# Copied here, because `user_code.exit_as_error` replaces the original.
_exit_now = os._exit


def _interrupt() -> None:
  raise KeyboardInterrupt


class Signals:
  """Handles the signals that stop the run or request a snapshot.

  Launchpad's handlers would stop all nodes at once and kill them 10 s later,
  even while they save. Nodes ignore the signals of a process group.

  Before `begin_run`, a stop signal ends this process at once, with one line and
  exit status 0, because nothing has been started.

  Attributes:
    first: the first stop signal that was received; None: none yet.
    snapshot_requested: whether a snapshot was requested; the caller that begins
      one sets it to False.
  """

  def __init__(self):
    """Installs the handlers; must be called in the main thread."""
    self.first: signal.Signals | None = None
    self.snapshot_requested = False
    self._interrupted_again = False
    self._begun = False
    self._on_second_interrupt: Callable[[], None] = _interrupt
    # While a library is loaded, Python delays handlers, and then runs only one
    # for several equal signals. The pipe gets a byte for each signal.
    self._arrived, self._arrives = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    self._set_handlers()

  def begin_run(self) -> None:
    """Makes signals stop the run in order from now on."""
    self._begun = True
    self._set_handlers()  # again, because Ray replaces them when it connects

  def on_second_interrupt(self, call: Callable[[], None]) -> None:
    """Sets the function that a second Ctrl-C calls.

    The default raises KeyboardInterrupt. If a second Ctrl-C has come already
    but its exception was caught, as in an import, the function is called at
    once.

    Args:
      call: the function.
    """
    self._on_second_interrupt = call
    if self._interrupted_again:
      call()

  def _set_handlers(self) -> None:
    signal.set_wakeup_fd(self._arrives, warn_on_full_buffer=False)
    for number in ENDS:
      signal.signal(number, self._handle_stop)
    signal.signal(signal.SIGUSR1, self._handle_save)

  def _handle_stop(self, number: int, frame: typing.Any) -> None:
    if not self._begun:
      # An exception could be caught by an import in progress.
      name = signal.Signals(number).name
      os.write(2, f"train: ended by {name} before anything began\n".encode())
      _exit_now(0)
    interrupts = self._read_arrived().count(signal.SIGINT)
    is_second = self.first is not None or interrupts > 1
    self.first = self.first or signal.Signals(number)
    if is_second and number == signal.SIGINT:
      self._interrupted_again = True
      self._on_second_interrupt()

  def _read_arrived(self) -> bytes:
    """Returns the numbers of the signals received since the last call."""
    with contextlib.suppress(BlockingIOError):
      return os.read(self._arrived, _READ_BYTES)
    return b""

  def _handle_save(self, number: int, frame: typing.Any) -> None:
    self.snapshot_requested = True
