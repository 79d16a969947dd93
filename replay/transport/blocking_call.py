"""Blocking call: a call of Reverb in a thread, which callers need not wait for.

Some calls of Reverb have no timeout and cannot be cancelled. If the server
dies, they block until a server is up at the address.
"""

import atexit
import threading
import time
import typing
from collections.abc import Callable

_Result = typing.TypeVar("_Result")

# Seconds that the process waits for all calls when it exits.
_EXIT_TIMEOUT_S = 3.0
# Name of the threads of calls, by which the process finds them when it exits.
_NAME = "blocking-call"


class BlockingCall(typing.Generic[_Result]):
  """One call of a function, in a daemon thread.

  ```python
  call = blocking_call.BlockingCall(client.checkpoint)
  while not call.wait(timeout_s=0.1):
    if not is_up():
      return None  # the thread stays blocked, which keeps no process alive
  return call.result()
  ```
  """

  def __init__(self, function: Callable[[], _Result]):
    self._function = function
    self._result: _Result | None = None
    self._error: Exception | None = None
    self._thread = threading.Thread(target=self._run, name=_NAME, daemon=True)
    self._thread.start()

  def wait(self, timeout_s: float) -> bool:
    """Waits at most `timeout_s` seconds; returns whether the call has ended."""
    self._thread.join(timeout_s)
    return not self._thread.is_alive()

  def result(self) -> _Result:
    """Waits for the end; returns the function's result, or raises its error."""
    self._thread.join()
    if self._error is not None:
      raise self._error
    return typing.cast(_Result, self._result)

  def _run(self) -> None:
    """Calls the function, and stores its result or its error."""
    try:
      self._result = self._function()
    except Exception as error:  # `result` raises it.
      self._error = error


def _wait_for_calls() -> None:
  """Waits for running calls for a while; registered for process exit."""
  deadline_s = time.monotonic() + _EXIT_TIMEOUT_S
  for thread in threading.enumerate():
    if thread.name == _NAME:
      thread.join(max(0.0, deadline_s - time.monotonic()))


atexit.register(_wait_for_calls)
