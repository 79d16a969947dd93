"""Watch: shows a run while it lasts, and passes signals on to it."""

import os
import signal
import threading
import time
import typing
from collections.abc import Callable

from launch import panel as panel_lib

_POLL_S = 0.5
# An orderly stop takes 1 to 5 s; one in the middle of a start-up waits for the
# nodes to be up first.
_STOP_GRACE_S = 30.0


class Signals:
  """Takes what asks this process to end, in Launchpad's stead.

  Its own handlers would stop all nodes at once and kill them 10 s later,
  whatever they are saving. Nodes ignore what a whole process group is sent.
  """

  def __init__(self):
    """Takes signals from here on; to be made in the main thread."""
    self.first: signal.Signals | None = None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      signal.signal(number, self._take)

  def _take(self, number: int, frame: typing.Any) -> None:
    if self.first is not None and number == signal.SIGINT:
      raise KeyboardInterrupt
    self.first = self.first or signal.Signals(number)


class Watch:
  """Shows the run's status, and passes signals on to the control node."""

  def __init__(
    self,
    control: typing.Any,
    signals: Signals,
    on_stopping: Callable[[], None],
  ):
    """Starts watching, after the launch.

    Args:
      control: Courier client of the control node.
      signals: to pass on.
      on_stopping: called when the run begins to stop, and now and then after.
    """
    self._on_stopping = on_stopping
    self._control: typing.Any = control  # None: it has ended
    self._panel = panel_lib.Panel()
    self._signals = signals
    self._closed = threading.Event()
    self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
    self._thread.start()

  def close(self) -> None:
    """Shows the last status and stops watching."""
    self._closed.set()
    self._thread.join(timeout=5.0)
    self._panel.close()

  def _run(self) -> None:
    give_up_at_s = float("inf")
    while not self._closed.wait(_POLL_S):
      if self._signals.first is not None:
        give_up_at_s = min(give_up_at_s, time.monotonic() + _STOP_GRACE_S)
        self._on_stopping()
        self._call("stop", self._signals.first.name)
      if time.monotonic() > give_up_at_s:
        os.kill(os.getpid(), signal.SIGINT)
        return
      status = self._call("status")
      if status is not None:
        self._panel.update(status)
        if status["stopped_because"] is not None:
          self._on_stopping()
        if status["phase"] == "stopped":
          # Its node ends now: the reply, and any other call, would be waited
          # for until their timeout.
          self._control.futures.release()
          self._control = None

  def _call(self, method: str, *args: str) -> typing.Any:
    """Calls the control node; None if it is not up yet, or gone already."""
    if self._control is None:
      return None
    try:
      return getattr(self._control, method)(*args)
    except Exception:
      return None  # whoever waits for its process knows which
