"""Polls a control node, which may not have started yet."""

import time


def wait_until(condition, timeout_s=60.0):
  """Polls a condition until it holds; a call that raises is repeated.

  Args:
    condition: function that returns whether the condition holds.
    timeout_s: seconds after which the wait fails.

  Raises:
    AssertionError: the condition did not hold in time; the message is the
      error of the last call, or None.
  """
  deadline_s = time.monotonic() + timeout_s
  while True:
    try:
      if condition():
        return
      value = None
    except Exception as error:
      value = error
    assert time.monotonic() < deadline_s, value
    time.sleep(0.01)
