"""The runner, with real processes that fail, hang and end."""

import contextlib
import os
import re
import signal
import sys
import threading
import time

import cloudpickle
import launchpad as lp
import pytest

from launch import payloads
from launch import runner as runner_lib

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", autouse=True)
def fork_server():
  """The server imports TensorFlow once for all tests."""
  runner_lib.start_fork_server({"TF_CPP_MIN_LOG_LEVEL": "2"})


@pytest.fixture
def make_runner(tmp_path, monkeypatch):
  """Makes a runner of functions by name, which may fail twice."""
  # A test's runner leaves the server to the next one's.
  monkeypatch.setattr(runner_lib, "_stop_fork_server", lambda: None)

  def make(**functions):
    nodes = [
      payloads.Payload(f"{role}/0", cloudpickle.dumps(f), {"NODE": role})
      for role, f in functions.items()
    ]
    return runner_lib.Runner(nodes, tmp_path, budget=2, period_s=60.0)

  return make


def lives(path):
  """Appends a line to a file; returns how many lines it has."""
  with open(path, "a+") as file:
    file.write("life\n")
    file.seek(0)
    return len(file.readlines())


def wait_for(path):
  while not os.path.exists(path):
    time.sleep(0.01)


def test_nodes_run_with_their_environment_and_their_logs(make_runner, tmp_path):
  def work():
    print("at work as", os.environ["NODE"])
    print("and in trouble", file=sys.stderr)

  runner = make_runner(worker=work, trainer=work)
  runner.run()
  assert runner.restarts == {}
  for role in ("worker", "trainer"):
    said = (tmp_path / role / "0").read_text()
    assert said == f"at work as {role}\nand in trouble\n"
  said = (tmp_path / "runner").read_text()
  assert "worker/0 is process" in said
  assert "worker/0 has ended" in said


def test_a_groups_signals_end_no_node_whenever_they_come(make_runner, tmp_path):
  nodes = ("control", "trainer", "worker")
  runner = make_runner(**dict.fromkeys(nodes, lambda: time.sleep(2.5)))
  ended = threading.Event()

  def storm():
    pids = re.compile(r"is process (\d+)")
    while not ended.is_set():
      for pid in pids.findall((tmp_path / "runner").read_text()):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
          with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), number)

  thread = threading.Thread(target=storm)
  thread.start()
  try:
    runner.run()
  finally:
    ended.set()
    thread.join()
  assert runner.restarts == {}


@pytest.mark.parametrize("how", ["raises", "exits", "is killed"])
def test_a_worker_that_fails_is_started_again(make_runner, tmp_path, how):
  def work():
    if lives(tmp_path / "lives") <= 2:
      if how == "raises":
        raise ValueError("once more")
      if how == "exits":
        os._exit(3)
      os.kill(os.getpid(), signal.SIGKILL)

  runner = make_runner(worker=work)
  runner.run()
  assert runner.restarts == {"worker/0": 2}
  assert lives(tmp_path / "lives") == 4  # with this one
  if how == "raises":
    said = (tmp_path / "worker" / "0").read_text()
    assert said.count("ValueError: once more") == 2


def test_a_worker_that_keeps_failing_ends_the_run(make_runner, tmp_path):
  def fail():
    raise ValueError(f"life {lives(tmp_path / 'lives')}")

  def learn():
    lp.stop_event().wait()
    print("told to hurry")

  runner = make_runner(worker=fail, trainer=learn)
  with pytest.raises(
    RuntimeError, match=r"^node worker/0 failed: ValueError: life 1 \(log: "
  ):
    runner.run()
  # The others were given the time to end by themselves.
  assert "told to hurry" in (tmp_path / "trainer" / "0").read_text()


def test_a_trainer_that_fails_ends_the_run_at_once(make_runner, tmp_path):
  def fail():
    lives(tmp_path / "lives")
    os.kill(os.getpid(), signal.SIGKILL)

  runner = make_runner(trainer=fail, worker=lambda: lp.stop_event().wait())
  with pytest.raises(RuntimeError, match="trainer/0 was ended by SIGKILL"):
    runner.run()
  assert lives(tmp_path / "lives") == 2


def test_who_does_not_end_is_killed(make_runner, tmp_path, monkeypatch):
  monkeypatch.setattr(runner_lib, "_GRACE_S", 0.3)
  runner = make_runner(worker=lambda: wait_for("/none"), control=lambda: None)
  runner.run()
  assert (
    "killed, since they did not end: worker/0"
    in (tmp_path / "runner").read_text()
  )


def test_at_the_end_of_a_run_nothing_is_started_again(make_runner, tmp_path):
  def fail():
    lives(tmp_path / "lives")
    wait_for(tmp_path / "go")
    os.kill(os.getpid(), signal.SIGKILL)

  runner = make_runner(worker=fail)
  running = threading.Thread(target=runner.run)
  running.start()
  wait_for(tmp_path / "lives")
  runner.stop_restarting()
  (tmp_path / "go").touch()
  running.join(60)
  assert not running.is_alive()
  assert lives(tmp_path / "lives") == 2


def test_signals_of_a_group_are_left_to_the_launcher(make_runner, tmp_path):
  def work():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
      os.kill(os.getpid(), number)
    print("still here", lp.stop_event().is_set())

  make_runner(worker=work).run()
  assert "still here False" in (tmp_path / "worker" / "0").read_text()
