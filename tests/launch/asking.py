"""Asking: questions to a control node that may still come up."""

import time


def until(holds, timeout_s=60.0):
  """Asks until it holds; a call that is given up is made again."""
  deadline_s = time.monotonic() + timeout_s
  while True:
    try:
      if holds():
        return
      value = None
    except Exception as error:
      value = error
    assert time.monotonic() < deadline_s, value
    time.sleep(0.01)
