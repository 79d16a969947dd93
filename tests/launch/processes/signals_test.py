"""Signals: real ones, sent to this process."""

import hashlib
import os
import signal
import threading
import time

import pytest

from launch.processes import signals as signals_lib

_TAKEN = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


@pytest.fixture
def signals():
  before = {number: signal.getsignal(number) for number in _TAKEN}
  yield signals_lib.Signals()
  signal.set_wakeup_fd(-1)
  for number, handler in before.items():
    signal.signal(number, handler)


def _send(*numbers):
  for number in numbers:
    os.kill(os.getpid(), number)


def test_the_first_signal_is_kept(signals):
  _send(signal.SIGTERM, signal.SIGHUP)
  assert signals.first == signal.SIGTERM


def test_a_request_for_a_snapshot_does_not_end(signals):
  _send(signal.SIGUSR1)
  assert signals.snapshot_asked
  assert signals.first is None


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_after_another_signal_interrupts(signals, first):
  _send(first)
  with pytest.raises(KeyboardInterrupt):
    _send(signal.SIGINT)
  assert signals.first == first


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGUSR1])
def test_another_signal_after_ctrl_c_does_not_interrupt(signals, again):
  _send(signal.SIGINT, again, again)
  assert signals.first == signal.SIGINT


def test_two_that_come_while_python_runs_no_handler_are_two(signals):
  begun = threading.Event()

  def interrupt_twice():
    begun.wait()
    for _ in range(2):
      time.sleep(0.05)  # of two that come at once, Linux delivers one
      _send(signal.SIGINT)

  sender = threading.Thread(target=interrupt_twice)
  sender.start()
  with pytest.raises(KeyboardInterrupt):
    begun.set()
    while sender.is_alive():
      # One call into C, as the loading of a library is, until both are there.
      hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)
  sender.join()
  assert signals.first == signal.SIGINT


def test_an_interrupt_that_was_caught_is_told_to_who_comes_next(signals):
  _send(signal.SIGINT)
  with pytest.raises(KeyboardInterrupt):
    _send(signal.SIGINT)
  calls = []
  signals.set_on_again(lambda: calls.append("at once"))
  assert calls == ["at once"]


def test_without_a_second_one_nobody_is_called(signals):
  _send(signal.SIGINT)
  calls = []
  signals.set_on_again(lambda: calls.append("at once"))
  assert not calls
  _send(signal.SIGINT)
  assert calls == ["at once"]
