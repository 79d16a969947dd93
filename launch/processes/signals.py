"""Signals: what asks a run from outside to end, or to save."""

import signal
import typing
from collections.abc import Callable


def _interrupt() -> None:
  raise KeyboardInterrupt


class Signals:
  """Takes what asks this process to end or to save, in Launchpad's stead.

  Its own handlers would stop all nodes at once and kill them 10 s later,
  whatever they are saving. Nodes ignore what a whole process group is sent.

  Attributes:
    first: the first signal that asked for the end.
    snapshot_asked: whether a snapshot is to be made; whoever sees to it says
      that it no longer is.
    on_again: called by a second Ctrl-C; raises KeyboardInterrupt if not set.
  """

  def __init__(self):
    """Takes signals from here on; to be made in the main thread."""
    self.first: signal.Signals | None = None
    self.snapshot_asked = False
    self.on_again: Callable[[], None] = _interrupt
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      signal.signal(number, self._take)
    signal.signal(signal.SIGUSR1, self._ask)

  def _take(self, number: int, frame: typing.Any) -> None:
    if self.first is not None and number == signal.SIGINT:
      self.on_again()
    self.first = self.first or signal.Signals(number)

  def _ask(self, number: int, frame: typing.Any) -> None:
    self.snapshot_asked = True
