"""Caller: calls a run's hooks without delaying or ending the run."""

import contextlib
import pathlib
import queue
import threading
import time
from collections.abc import Callable

import ml_collections
from absl import logging

from slipway.environments import user_code
from slipway.launch.hooks import catalog
from slipway.launch.hooks import event as event_lib
from slipway.launch.runs import run_status

# Events that may wait for one hook; further events replace the oldest ones.
_MAX_QUEUED_EVENTS = 64
# Seconds to wait for all hooks together at the end of a run, because an upload
# takes a few seconds.
_CLOSE_TIMEOUT_S = 10.0


class Caller:
  """Caller of a run's hooks, with one thread per hook.

  Each hook is called with one event at a time. If a hook raises an error, the
  error is logged and the hook is not called again. A slow hook misses events.

  ```python
  caller = Caller(config, folder.path)
  caller.stop_run = control.stop
  caller.send('start', control.status)
  caller.close(control.status)
  ```

  Attributes:
    stop_run: function that stops the run, which hooks call by `Event.stop`.
  """

  def __init__(self, config: ml_collections.ConfigDict, folder: pathlib.Path):
    """Starts one thread per hook, in which the hook is imported.

    Args:
      config: the whole config; the field `hooks` names the hooks.
    """
    self._config = config.copy_and_resolve_references()
    self._config.lock()
    self._folder = folder
    self._threads = [_HookThread(name) for name in config.hooks]
    self.stop_run: Callable[[str], object] = lambda reason: None

  @property
  def failed(self) -> dict[str, str]:
    """Descriptions of the errors of failed hooks, by the hook's name."""
    return {
      thread.hook: thread.error
      for thread in self._threads
      if thread.error is not None
    }

  def send(
    self, name: event_lib.Name, status: Callable[[], run_status.RunStatus]
  ) -> None:
    """Queues an event for all hooks; returns at once.

    Args:
      name: the event's name.
      status: function that returns the run's status; called only if the run
        has hooks.
    """
    if not self._threads:
      return
    # Not the function as it is now: a run that is resumed gets another one.
    event = event_lib.Event(
      name,
      status(),
      self._folder,
      self._config,
      lambda reason: self.stop_run(reason),
    )
    for thread in self._threads:
      thread.send(event)

  def close(self, status: Callable[[], run_status.RunStatus]) -> None:
    """Sends the event 'end', and waits up to 10 s until all hooks are done.

    Args:
      status: function that returns the run's last status.
    """
    end_s = time.monotonic() + _CLOSE_TIMEOUT_S
    self.send("end", status)
    for thread in self._threads:
      thread.close(end_s - time.monotonic())


class _HookThread:
  """A thread that imports one hook, and calls it with each event.

  Attributes:
    hook: the hook's name.
    error: description of the hook's error, or None if it has not failed.
  """

  def __init__(self, hook: str):
    """Starts the thread of a hook, given the name in `config.hooks`."""
    self.hook, self.error = hook, None
    self._events: queue.Queue[event_lib.Event | None] = queue.Queue(
      _MAX_QUEUED_EVENTS
    )
    self._is_slow = False
    self._thread = threading.Thread(
      target=self._run, name=f"hook {hook}", daemon=True
    )
    self._thread.start()

  def send(self, event: event_lib.Event) -> None:
    """Queues an event for the hook, in place of the oldest in a full queue."""
    if self.error is not None:
      return
    if self._events.full():
      if not self._is_slow:
        self._is_slow = True
        logging.warning(
          "hook %s is slower than the run: it misses events", self.hook
        )
      with contextlib.suppress(queue.Empty):  # the hook has just taken it
        self._events.get_nowait()
    self._events.put(event)

  def close(self, timeout_s: float) -> None:
    """Waits until the hook has handled all queued events."""
    end_s = time.monotonic() + timeout_s
    if self.error is None:
      with contextlib.suppress(queue.Full):
        self._events.put(None, timeout=max(0.0, timeout_s))
    self._thread.join(max(0.0, end_s - time.monotonic()))
    if self._thread.is_alive():
      logging.warning(
        "hook %s has not ended within %.0f s: its remaining events are lost",
        self.hook,
        _CLOSE_TIMEOUT_S,
      )

  def _run(self) -> None:
    """Calls the hook with each event, until it fails or the queue has None."""
    try:
      call = catalog.make(self.hook)
      while (event := self._events.get()) is not None:
        call(event)
    except BaseException as error:  # whatever the user's code raises
      self.error = user_code.describe(error)
      logging.error(
        "hook %s failed, and is not called again: %s\n%s",
        self.hook,
        self.error,
        user_code.format_traceback(error),
      )
