"""Signals: handles the signals that stop a run or request a snapshot."""

import contextlib
import os
import signal
import typing
from collections.abc import Callable

# Signals that stop a run in order. A terminal or a batch system sends them to a
# whole process group.
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Signals that a terminal or a batch system sends to a whole process group. Only
# the launcher handles them.
GROUP_SIGNALS = (*ENDS, signal.SIGUSR1)
# Signal by which a node ends at once, without the stop order.
SHUTDOWN_SIGNAL = signal.SIGUSR2
_READ_BYTES = 4_096  # more bytes, one per signal, than are ever pending


# The original function, because `user_code.exit_as_error` replaces `os._exit`.
_exit_now = os._exit


def _interrupt() -> None:
  raise KeyboardInterrupt


class Signals:
  """Handles the signals that stop the run or request a snapshot.

  They replace Launchpad's handlers, which would stop all nodes at once and kill
  them 10 s later, even while they save. Only the launcher has these handlers:
  nodes ignore the signals that a terminal sends to a process group.

  Before `begin_run`, a stop signal ends this process at once, with a message
  and exit status 0, because nothing has been started.

  Attributes:
    first: the first stop signal that was received, or None before one.
    snapshot_requested: whether SIGUSR1 has requested a snapshot; the caller
      that begins the snapshot sets it to False.
  """

  def __init__(self):
    """Installs the handlers; must be called in the main thread."""
    self.first: signal.Signals | None = None
    self.snapshot_requested = False
    self._interrupted_again = False
    self._run_has_begun = False
    self._on_second_interrupt: Callable[[], None] = _interrupt
    # While a library is loaded, Python delays handlers, and then calls only one
    # for several equal signals. So signals are counted by a pipe, to which
    # Python writes the number of each signal as a byte.
    self._pipe_out, self._pipe_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    self._set_handlers()

  def begin_run(self) -> None:
    """Makes signals stop the run in order from now on."""
    self._run_has_begun = True
    self._set_handlers()  # set again, because Ray replaces them on connecting

  def on_second_interrupt(self, call: Callable[[], None]) -> None:
    """Sets the function that a second Ctrl-C calls.

    The default raises KeyboardInterrupt. An import, for example, may have
    caught that exception. So if a second Ctrl-C has come already, the function
    is called at once.
    """
    self._on_second_interrupt = call
    if self._interrupted_again:
      call()

  def _set_handlers(self) -> None:
    signal.set_wakeup_fd(self._pipe_in, warn_on_full_buffer=False)
    for number in ENDS:
      signal.signal(number, self._handle_stop)
    signal.signal(signal.SIGUSR1, self._handle_save)

  def _handle_stop(self, number: int, frame: typing.Any) -> None:
    """Handles a stop signal; its arguments are those of `signal.signal`."""
    if not self._run_has_begun:
      # An import in progress could catch an exception, so none is raised.
      name = signal.Signals(number).name
      os.write(2, f"train: ended by {name} before anything began\n".encode())
      _exit_now(0)
    interrupts = self._read_numbers().count(signal.SIGINT)
    is_second = self.first is not None or interrupts > 1
    self.first = self.first or signal.Signals(number)
    if is_second and number == signal.SIGINT:
      self._interrupted_again = True
      self._on_second_interrupt()

  def _read_numbers(self) -> bytes:
    """Returns the numbers of the signals received since the last call."""
    with contextlib.suppress(BlockingIOError):
      return os.read(self._pipe_out, _READ_BYTES)
    return b""

  def _handle_save(self, number: int, frame: typing.Any) -> None:
    self.snapshot_requested = True
