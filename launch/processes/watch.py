"""Watch: shows a run's status, and forwards signals to the control node."""

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

_POLL_PERIOD_S = 0.5  # seconds between two polls of the control node
# Seconds that a run may take to end after a stop signal, before the launcher is
# interrupted. A stop by a signal takes 1 to 9 s, but a run that is starting
# first waits until all nodes are up.
_STOP_GRACE_S = 30.0


class Watch:
  """The launcher's thread that polls the control node.

  The thread shows the run's status and forwards signals to the control node.
  """

  def __init__(
    self,
    control: control_service.ControlService,
    signals: signals_lib.Signals,
    on_stopping: Callable[[], None] = lambda: None,
    on_workers: Callable[[int, float], None] = lambda count, at_s: None,
  ):
    """Starts the thread; to be called after the launch.

    Args:
      control: client of the control node, which may be restarted.
      signals: the signals to forward.
      on_stopping: function that is called at each poll once the run is
        stopping.
      on_workers: function that is called at each poll until the run is
        stopping. Its arguments are the target number of workers, and the
        monotonic seconds at which that number was read.
    """
    self._on_stopping, self._on_workers = on_stopping, on_workers
    self._control = control
    self._panel = panel_lib.Panel()
    self._display_works = True
    self._signals = signals
    self._closed = threading.Event()
    self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
    self._thread.start()

  def close(self) -> None:
    """Ends the thread, and leaves the last status on the screen."""
    self._closed.set()
    self._thread.join(timeout=5.0)
    self._panel.close()

  def _run(self) -> None:
    """Polls the control node until the run has stopped or `close` is called.

    If the run has not ended 30 s after a stop signal, the thread interrupts
    this process by SIGINT and ends.
    """
    give_up_at_s = float("inf")
    while not self._closed.wait(_POLL_PERIOD_S):
      if self._signals.first is not None:
        give_up_at_s = min(give_up_at_s, time.monotonic() + _STOP_GRACE_S)
        self._on_stopping()
      if time.monotonic() > give_up_at_s:
        os.kill(os.getpid(), signal.SIGINT)
        return
      # A control node that does not reply is still starting, or has ended. The
      # launcher's runner detects its end, so the error is ignored here.
      with contextlib.suppress(rpc_client.UnreachableError):
        self._forward_signals()
        if self._poll_status() == "stopped":
          self._control.release()  # its last status is here, so it may end
          return

  def _forward_signals(self) -> None:
    """Sends received stop signals and snapshot requests to the control node."""
    if self._signals.first is not None:
      self._control.stop(self._signals.first.name)
    if self._signals.snapshot_requested:
      # A run that is stopping rejects the call, but saves at its end anyway.
      with contextlib.suppress(ValueError):
        self._control.save()
      self._signals.snapshot_requested = False

  def _poll_status(self) -> str:
    """Polls and shows the run's status; calls `on_stopping` or `on_workers`.

    Returns:
      The run's phase, such as 'running' or 'stopped'.
    """
    requested_at_s = time.monotonic()
    status = self._control.status()
    if self._display_works:
      try:
        self._panel.update(status)
      except Exception:
        # This thread also forwards signals, so an error must not end it.
        self._display_works = False
        logging.exception(
          "the status is no longer shown, because the display failed:"
        )
    if status.stopped_because is not None:
      self._on_stopping()
    else:
      self._on_workers(status.workers_target, requested_at_s)
    return status.phase
