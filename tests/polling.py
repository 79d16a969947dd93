"""Polling: waits for what other threads and processes do."""

import time

import psutil


def wait_until(condition, timeout_s=60.0, *, wanted=bool, period_s=0.01):
  """Calls a function until its value is as wanted, and returns the value.

  A call that raises an error is repeated, because a process that it calls may
  not have started yet.

  Args:
    condition: function without arguments.
    timeout_s: seconds after which the wait fails.
    wanted: function that returns whether a value is as wanted.
    period_s: seconds between two calls.

  Raises:
    AssertionError: no value was as wanted in time; the message is the last
      value or error.
  """
  deadline_s = time.monotonic() + timeout_s
  while True:
    try:
      value = condition()
      if wanted(value):
        return value
    except Exception as error:
      value = error
    assert time.monotonic() < deadline_s, value
    time.sleep(period_s)


def is_alive(pid):
  """Returns whether a process runs; one that nobody has reaped does not."""
  try:
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False
