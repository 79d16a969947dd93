"""Watch: shows a run while it lasts, and passes signals on to it."""

import os
import signal
import threading
import time
import typing
from collections.abc import Callable
from concurrent import futures

from launch.display import panel as panel_lib
from launch.orchestration import messages
from launch.processes import signals as signals_lib
from launch.runs import run_status

_POLL_S = 0.5
# An orderly stop takes 1 to 5 s; one in the middle of a start-up waits for the
# nodes to be up first.
_STOP_GRACE_S = 30.0


class Watch:
  """Shows the run's status, and passes signals on to the control node."""

  def __init__(
    self,
    control: typing.Any,
    signals: signals_lib.Signals,
    on_stopping: Callable[[], None] = lambda: None,
    on_workers: Callable[[int, float], None] = lambda count, at_s: None,
  ):
    """Starts watching, after the launch.

    Args:
      control: Courier client of the control node, which may be started again.
      signals: to pass on.
      on_stopping: called when the run begins to stop, and now and then after.
      on_workers: called now and then until then, with how many workers are
        asked for and the monotonic seconds at which that was so.
    """
    self._on_stopping, self._on_workers = on_stopping, on_workers
    self._control: typing.Any = control  # None: it has ended
    self._panel = panel_lib.Panel()
    self._signals = signals
    self._closed: futures.Future[None] = futures.Future()
    self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
    self._thread.start()

  def close(self) -> None:
    """Shows the last status and stops watching."""
    self._closed.set_result(None)
    self._thread.join(timeout=5.0)
    self._panel.close()

  def _run(self) -> None:
    give_up_at_s = float("inf")
    while not futures.wait([self._closed], _POLL_S).done:
      if self._signals.first is not None:
        give_up_at_s = min(give_up_at_s, time.monotonic() + _STOP_GRACE_S)
        self._on_stopping()
        self._call("stop", self._signals.first.name)
      if self._signals.snapshot_asked:
        # What is refused, since the run stops, is made all the same.
        self._signals.snapshot_asked = self._call("save") is None
      if time.monotonic() > give_up_at_s:
        os.kill(os.getpid(), signal.SIGINT)
        return
      self._look()

  def _look(self) -> None:
    asked_at_s = time.monotonic()
    reply = self._call("status")
    if reply is None:
      return
    status = messages.decode(reply, run_status.RunStatus)
    self._panel.update(status)
    if status.stopped_because is not None:
      self._on_stopping()
    else:
      self._on_workers(status.workers_target, asked_at_s)
    if status.phase == "stopped":
      # Its node ends now: the reply, and any other call, would be waited for
      # until their timeout.
      self._control.futures.release()
      self._control = None

  def _call(self, method: str, *args: str) -> typing.Any:
    """Calls the control node; None if it is not up now, or gone already."""
    if self._control is None:
      return None
    call = getattr(self._control.futures, method)(*args)
    futures.wait([call, self._closed], return_when=futures.FIRST_COMPLETED)
    if not call.done():
      call.cancel()  # a node that is not up would be waited for
      return None
    # Whoever waits for its process knows what became of it.
    return None if call.exception() else call.result()
