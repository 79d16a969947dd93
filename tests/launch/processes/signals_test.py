"""Tests of signals with real signals to this process."""

import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

from slipway.launch.processes import signals as signals_lib

_ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def signals():
  taken = signals_lib.Signals()
  taken.begin_run()
  return taken


def _send(*numbers):
  for number in numbers:
    os.kill(os.getpid(), number)


def test_the_first_signal_is_kept(signals):
  _send(signal.SIGTERM, signal.SIGHUP)
  assert signals.first == signal.SIGTERM


def test_the_ends_of_children_are_not_ignored():
  before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
  try:
    signals_lib.Signals()
    done = subprocess.run(["false"])
  finally:
    signal.signal(signal.SIGCHLD, before)
  assert done.returncode == 1  # Python reports 0 if the kernel has reaped it


def test_a_request_for_a_snapshot_does_not_stop_the_run(signals):
  _send(signal.SIGUSR1)
  assert signals.snapshot_requested
  assert signals.first is None


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_after_another_signal_interrupts(signals, first):
  _send(first)
  with pytest.raises(KeyboardInterrupt):
    _send(signal.SIGINT)
  assert signals.first == first


_EXECUTED = """
import os, signal, sys
from slipway.launch.processes import signals
taken = signals.Signals()
taken.begin_run()
try:
  exec("for _ in range(2): os.kill(os.getpid(), signal.SIGINT)")
except KeyboardInterrupt:
  sys.exit(1)
"""


def test_a_second_ctrl_c_in_executed_text_keeps_the_exit_status(tmp_path):
  """CPython would end by SIGINT, as after an interrupted import."""
  (tmp_path / "executed.py").write_text(_EXECUTED)
  done = subprocess.run(
    [sys.executable, "-m", "executed"],
    env={**os.environ, "PYTHONPATH": str(tmp_path)},
    check=False,
  )
  assert done.returncode == 1


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGUSR1])
def test_another_signal_after_ctrl_c_does_not_interrupt(signals, again):
  _send(signal.SIGINT, again, again)
  assert signals.first == signal.SIGINT


def test_a_new_handler_is_called_for_an_earlier_interrupt(signals):
  _send(signal.SIGINT)
  with pytest.raises(KeyboardInterrupt):
    _send(signal.SIGINT)
  calls = []
  signals.set_second_interrupt_handler(lambda: calls.append("at once"))
  assert calls == ["at once"]


def test_without_a_second_interrupt_no_handler_is_called(signals):
  _send(signal.SIGINT)
  calls = []
  signals.set_second_interrupt_handler(lambda: calls.append("at once"))
  assert not calls
  _send(signal.SIGINT)
  assert calls == ["at once"]


@pytest.mark.parametrize("number", signals_lib.STOP_SIGNALS)
def test_a_signal_before_the_run_prints_one_line(tmp_path, number):
  """This also holds during the slow import of `start_run`."""
  for delay_s in (0.0, 0.1):
    train = subprocess.Popen(
      [
        # In case the tests run under nohup, which ignores SIGHUP.
        *("env", "--default-signal=HUP", sys.executable),
        *("-m", "slipway.launch.commands.train", f"--run_dir={tmp_path}"),
      ],
      stderr=subprocess.PIPE,
      cwd=_ROOT,
      text=True,
    )
    while not _catches_signals(train.pid):
      time.sleep(0.001)
    time.sleep(delay_s)
    train.send_signal(number)
    _, printed = train.communicate(timeout=60)
    assert train.returncode == 0, printed
    (line,) = printed.splitlines()
    assert signal.Signals(number).name in line
    assert not list(tmp_path.iterdir())


def test_a_signal_before_the_run_cleans_up_without_a_terminal():
  script = (
    "import os, signal\n"
    "from slipway.launch.processes import signals\n"
    "taken = signals.Signals()\n"
    "taken.clean_up = lambda: print('cleaned up', flush=True)\n"
    "read_end, write_end = os.pipe()\n"
    "os.close(read_end)\n"
    "os.dup2(write_end, 2)\n"
    "signal.raise_signal(signal.SIGTERM)\n"
  )
  done = subprocess.run(
    [sys.executable, "-c", script], stdout=subprocess.PIPE, check=True
  )
  assert done.stdout == b"cleaned up\n"


def test_sighup_that_nohup_ignores_stays_ignored():
  script = (
    "import signal\n"
    "from slipway.launch.processes import signals\n"
    "taken = signals.Signals()\n"
    "signal.raise_signal(signal.SIGHUP)\n"
    "taken.begin_run()\n"
    "signal.raise_signal(signal.SIGHUP)\n"
    "assert taken.first is None\n"
    "print('continues')\n"
  )
  done = subprocess.run(
    ["nohup", sys.executable, "-c", script],
    stdin=subprocess.DEVNULL,
    stdout=subprocess.PIPE,
    check=True,
  )
  assert done.stdout == b"continues\n"


def test_a_signal_during_the_start_up_ends_an_environments_processes(tmp_path):
  """The command ends although the constructor has not returned."""
  (tmp_path / "slow.py").write_text(
    "import subprocess, time, gymnasium\n"
    "class Slow(gymnasium.Env):\n"
    "  def __init__(self):\n"
    "    print(subprocess.Popen(['sleep', '60']).pid, flush=True)\n"
    "    time.sleep(60.0)\n"
    "gymnasium.register('Slow-v0', Slow)\n"
  )
  train = subprocess.Popen(
    [
      *(
        sys.executable,
        "-m",
        "slipway.launch.commands.train",
        f"--run_dir={tmp_path}/runs",
      ),
      "--config.environment.name=slow:Slow-v0",
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    cwd=_ROOT,
    env={**os.environ, "PYTHONPATH": str(tmp_path)},
    text=True,
  )
  child = psutil.Process(int(train.stdout.readline()))
  train.send_signal(signal.SIGTERM)
  _, printed = train.communicate(timeout=60)
  assert train.returncode == 0, printed
  assert printed == "train: ended by SIGTERM before anything began\n"
  assert not child.is_running()


def _catches_signals(pid):
  """Returns whether a process has Slipway's handlers.

  The test is SIGQUIT, since Python itself only has a handler of SIGINT.
  """
  status = pathlib.Path(f"/proc/{pid}/status").read_text()
  (caught,) = re.findall(r"SigCgt:\s*(\w+)", status)
  return bool(int(caught, 16) >> (signal.SIGQUIT - 1) & 1)


def test_a_forked_process_does_not_stop_the_run(signals):
  process = multiprocessing.get_context("fork").Process(
    target=time.sleep, args=(600,)
  )
  process.start()
  time.sleep(0.5)
  process.terminate()
  process.join()
  assert process.exitcode == -signal.SIGTERM
  _send(signal.SIGINT)
  assert signals.first == signal.SIGINT
