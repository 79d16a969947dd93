"""BlockingCall: results, errors, timeouts, and the end of the process."""

import subprocess
import sys
import threading

import pytest

from slipway.replay.transport import blocking_call


def test_result_raises_the_functions_error():
  def fail():
    raise ConnectionError("down")

  call = blocking_call.BlockingCall(fail)
  assert call.wait(timeout_s=60.0)
  with pytest.raises(ConnectionError, match="down"):
    call.result()


def test_wait_ends_at_its_timeout_or_with_the_call_and_its_result():
  may_end = threading.Event()
  call = blocking_call.BlockingCall(lambda: may_end.wait() and 7)
  assert not call.wait(timeout_s=0.01)
  may_end.set()
  assert call.wait(timeout_s=60.0)
  assert call.result() == 7


_EXITS_DURING_A_CALL = """
import threading, time
from slipway.replay.transport import blocking_call
blocking_call.BlockingCall(lambda: (time.sleep(0.2), print("ended")))
blocking_call.BlockingCall(threading.Event().wait)
"""


def test_a_process_that_exits_waits_for_its_calls_but_not_for_ever():
  done = subprocess.run(
    [sys.executable, "-c", _EXITS_DURING_A_CALL],
    capture_output=True,
    text=True,
    timeout=60.0,
    check=True,
  )
  assert done.stdout == "ended\n"
