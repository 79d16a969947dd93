"""Signals: what asks a run from outside to end, or to save."""

import contextlib
import os
import signal
import typing
from collections.abc import Callable

# End a run in order. A terminal or a batch system sends them to all processes
# of a group.
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_READ_BYTES = 4_096  # more signals than anybody sends


# Taken here, as `user_code.exit_as_error` makes an error of the other.
_exit_now = os._exit


def _interrupt() -> None:
  raise KeyboardInterrupt


class Signals:
  """Takes what asks this process to end or to save, in Launchpad's stead.

  Its own handlers would stop all nodes at once and kill them 10 s later,
  whatever they are saving. Nodes ignore what a whole process group is sent.

  Until `begin_run` a signal that asks for the end ends this process at once,
  with one line and exit status 0: nothing has been started.

  Attributes:
    first: the first signal that asked for the end.
    snapshot_asked: whether a snapshot is to be made; whoever sees to it says
      that it no longer is.
  """

  def __init__(self):
    """Takes signals from here on; to be made in the main thread."""
    self.first: signal.Signals | None = None
    self.snapshot_asked = False
    self._interrupted_again = False
    self._begun = False
    self._on_again: Callable[[], None] = _interrupt
    # While a library is loaded Python runs no handler, and one for all signals
    # of a kind that came meanwhile; a byte is written for each.
    self._arrived, self._arrives = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    self._set_handlers()

  def begin_run(self) -> None:
    """Lets signals end the run in order from now on."""
    self._begun = True
    self._set_handlers()  # again: Ray sets its own when it connects

  def set_on_again(self, on_again: Callable[[], None]) -> None:
    """Says what a second Ctrl-C calls; it raises KeyboardInterrupt until then.

    Called here if that one came and was caught on its way: callbacks of
    Python's own import do so.
    """
    self._on_again = on_again
    if self._interrupted_again:
      on_again()

  def _set_handlers(self) -> None:
    signal.set_wakeup_fd(self._arrives, warn_on_full_buffer=False)
    for number in ENDS:
      signal.signal(number, self._take)
    signal.signal(signal.SIGUSR1, self._ask)

  def _take(self, number: int, frame: typing.Any) -> None:
    if not self._begun:
      # An exception could get lost in an import that is under way.
      name = signal.Signals(number).name
      os.write(2, f"train: ended by {name} before anything began\n".encode())
      _exit_now(0)
    interrupts = self._read_arrived().count(signal.SIGINT)
    again = self.first is not None or interrupts > 1
    self.first = self.first or signal.Signals(number)
    if again and number == signal.SIGINT:
      self._interrupted_again = True
      self._on_again()

  def _read_arrived(self) -> bytes:
    """The numbers of the signals that came since it was last called."""
    with contextlib.suppress(BlockingIOError):
      return os.read(self._arrived, _READ_BYTES)
    return b""

  def _ask(self, number: int, frame: typing.Any) -> None:
    self.snapshot_asked = True
