"""Tests that Watch keeps working if the status can't be shown."""

import os
import signal
import sys
import threading

import pytest

from slipway.launch.processes import signals as signals_lib
from slipway.launch.processes import watch
from slipway.launch.runs import run_status


class Control:
  """The control node of a run that stops on request."""

  def __init__(self):
    self.stopped_by = None
    self.released = threading.Event()

  def status(self):
    phase = "stopped" if self.stopped_by else "running"
    return run_status.RunStatus(
      name="run",
      mode="async",
      phase=phase,
      stopped_because=self.stopped_by,
      workers_target=3,
    )

  def stop(self, reason):
    self.stopped_by = reason

  def release(self):
    self.released.set()


class BrokenOutput:
  """An output that raises an error other than OSError."""

  encoding = "utf-8"

  def isatty(self):
    return False

  def flush(self):
    pass

  def write(self, text):
    raise RuntimeError("broken")


def _broken_pipe():
  reader, writer = os.pipe()
  os.close(reader)
  return open(writer, "w")


@pytest.mark.parametrize("make_output", [_broken_pipe, BrokenOutput])
def test_signals_are_handled_after_a_failed_display(make_output, monkeypatch):
  monkeypatch.setattr(sys, "stdout", make_output())
  before = {
    number: signal.getsignal(number) for number in signals_lib.STOP_SIGNALS
  }
  signals = signals_lib.Signals()
  signals.begin_run()
  control, workers = Control(), threading.Semaphore(0)
  watcher = watch.Watch(
    control, signals, on_workers=lambda count, at_s: workers.release()
  )
  try:
    for _ in range(2):  # the second call follows the failure
      assert workers.acquire(timeout=10)
    os.kill(os.getpid(), signal.SIGTERM)
    assert control.released.wait(10)
    assert control.stopped_by == "SIGTERM"
  finally:
    watcher.close()
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
      signal.signal(number, handler)
