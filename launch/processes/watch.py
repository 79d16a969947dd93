"""Watch: shows a run while it lasts, and passes signals on to it."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable

from absl import logging

from slipway.launch.display import panel as panel_lib
from slipway.launch.orchestration import control_service
from slipway.launch.processes import signals as signals_lib
from slipway.launch.rpc import client as rpc_client

_POLL_S = 0.5
# An orderly stop takes 1 to 5 s; one in the middle of a start-up waits for the
# nodes to be up first.
_STOP_GRACE_S = 30.0


class Watch:
  """Shows the run's status, and passes signals on to the control node."""

  def __init__(
    self,
    control: control_service.ControlService,
    signals: signals_lib.Signals,
    on_stopping: Callable[[], None] = lambda: None,
    on_workers: Callable[[int, float], None] = lambda count, at_s: None,
  ):
    """Starts watching, after the launch.

    Args:
      control: client of the control node, which may be started again.
      signals: to pass on.
      on_stopping: called when the run begins to stop, and now and then after.
      on_workers: called now and then until then, with how many workers are
        asked for and the monotonic seconds at which that was so.
    """
    self._on_stopping, self._on_workers = on_stopping, on_workers
    self._control = control
    self._panel = panel_lib.Panel()
    self._shows = True  # until the display fails
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
      if time.monotonic() > give_up_at_s:
        os.kill(os.getpid(), signal.SIGINT)
        return
      # One that is not up has yet to start, or has ended: the process that
      # waits for the nodes knows which.
      with contextlib.suppress(rpc_client.UnreachableError):
        self._pass_on()
        if self._show() == "stopped":
          self._control.release()
          return

  def _pass_on(self) -> None:
    """Passes signals on to the control node."""
    if self._signals.first is not None:
      self._control.stop(self._signals.first.name)
    if self._signals.snapshot_asked:
      # A run that stops rejects it, and saves in any case.
      with contextlib.suppress(ValueError):
        self._control.save()
      self._signals.snapshot_asked = False

  def _show(self) -> str:
    """Shows the status and acts on it; returns the run's phase."""
    requested_at_s = time.monotonic()
    status = self._control.status()
    if self._shows:
      try:
        self._panel.update(status)
      except Exception:
        # Signals are passed on by this thread, which must not end.
        self._shows = False
        logging.exception("the status is not shown any more, as this failed:")
    if status.stopped_because is not None:
      self._on_stopping()
    else:
      self._on_workers(status.workers_target, requested_at_s)
    return status.phase
