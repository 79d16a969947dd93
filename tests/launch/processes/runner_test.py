"""Tests of the runner with real processes that fail, hang and end."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import cloudpickle
import psutil
import pytest

from slipway.launch.control import stages
from slipway.launch.nodes import link
from slipway.launch.processes import (
  failures,
  fork_server,
  node_process,
  signals,
)
from slipway.launch.processes import node as node_lib
from slipway.launch.processes import runner as runner_lib
from tests import polling

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory):
  """Yields a fork server, which imports TensorFlow once for all tests."""
  server = fork_server.ForkServer(str(tmp_path_factory.mktemp("memory")))
  yield server
  server.close()


def prepare(name, function):
  role = name.partition("/")[0]
  return node_process.PreparedNode(
    name, cloudpickle.dumps(function), {"NODE": role}
  )


class Started:
  """A runner in a thread."""

  def __init__(self, server, nodes, logs, make_worker):
    self.runner = runner_lib.Runner(
      server, nodes, {}, logs, 2, 60.0, make_worker
    )
    self._log = logs / "runner"
    self._error = None
    self._thread = threading.Thread(target=self._run)
    self._thread.start()

  def _run(self):
    try:
      self.runner.run()
    except (RuntimeError, KeyboardInterrupt) as error:
      self._error = error

  @property
  def log_text(self):
    return self._log.read_text() if self._log.exists() else ""

  def pid(self, name):
    """Returns the pid of a node's newest process, or None before its start."""
    for line in reversed(self.log_text.splitlines()):
      match = re.search(f" {name} is process ([0-9]+)$", line)
      if match:
        return int(match[1])
    return None

  def kill(self, name):
    """Kills a node's process, and waits until another one has replaced it."""
    before = self.pid(name)
    os.kill(before, signal.SIGKILL)
    polling.wait_until(lambda: self.pid(name) != before)

  def wait(self):
    self._thread.join(60)
    assert not self._thread.is_alive()
    if self._error is not None:
      raise self._error


@pytest.fixture
def make_runner(server, tmp_path):
  """Returns a function that makes a runner.

  The nodes' functions are given by role. Each node may fail twice.
  """

  def make(**functions):
    nodes = [prepare(f"{role}/0", f) for role, f in functions.items()]
    return runner_lib.Runner(
      server, nodes, {}, tmp_path, 2, 60.0, no_more_workers
    )

  return make


@pytest.fixture
def start_runner(server, tmp_path):
  """Yields a function that starts a runner in a thread, and kills all nodes.

  The nodes' functions are given by role.
  """
  started = []

  def start(make_worker=no_more_workers, **functions):
    nodes = [prepare(f"{role}/0", f) for role, f in functions.items()]
    started.append(Started(server, nodes, tmp_path, make_worker))
    for node in nodes:
      polling.wait_until(lambda name=node.name: started[-1].pid(name))
    return started[-1]

  yield start
  for runner in started:
    runner.runner.kill_at_once()
    runner._thread.join(60)


def no_more_workers(index, count):
  raise AssertionError(f"worker {index} of {count} was not requested")


def wait_for_file(path):
  """Returns the function of a node that ends once a file exists."""

  def run():
    while not os.path.exists(path) and not link.own_stop_event.get().is_set():
      time.sleep(0.01)

  return run


def wait_for_stop():
  """A node that ends when it is told to."""
  link.own_stop_event.get().wait()


def count_starts(path):
  """Appends a line to a file, and returns the file's number of lines."""
  with open(path, "a+") as file:
    file.write("life\n")
    file.seek(0)
    return len(file.readlines())


def test_nodes_run_with_their_environment_and_their_logs(make_runner, tmp_path):
  def work():
    print("at work as", os.environ["NODE"])
    print("and in trouble", file=sys.stderr)

  runner = make_runner(worker=work, trainer=work)
  runner.run()
  assert runner.restarts == {}
  for role in ("worker", "trainer"):
    log_text = (tmp_path / role / "0").read_text()
    assert log_text == f"at work as {role}\nand in trouble\n"
  log_text = (tmp_path / "runner").read_text()
  assert "worker/0 is process" in log_text
  assert "worker/0 has ended" in log_text


def test_signals_of_the_process_group_never_end_a_node(make_runner, tmp_path):
  nodes = ("replay", "trainer", "worker")
  group = signals.GROUP_SIGNALS
  runner = make_runner(**dict.fromkeys(nodes, lambda: time.sleep(2.5)))
  ended = threading.Event()

  def storm():
    pids = re.compile(r"is process (\d+)")
    log = tmp_path / "runner"
    while not ended.is_set():
      for pid in pids.findall(log.read_text() if log.exists() else ""):
        for number in group:
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


@pytest.mark.parametrize(
  "how", ["raises", "exits with 3", "exits with 0", "is killed"]
)
def test_a_failed_node_is_restarted(make_runner, tmp_path, how):
  def work():
    if count_starts(tmp_path / "starts") <= 2:
      if how == "raises":
        raise ValueError("once more")
      if how.startswith("exits"):
        # Called in a thread, since a call by the node's function is an error.
        threading.Thread(target=os._exit, args=[int(how[-1])]).start()
        time.sleep(60.0)
      os.kill(os.getpid(), signal.SIGKILL)

  runner = make_runner(worker=work)
  runner.run()
  assert runner.restarts == {"worker/0": 2}
  assert count_starts(tmp_path / "starts") == 4  # including this line
  if how == "raises":
    log_text = (tmp_path / "worker" / "0").read_text()
    assert log_text.count("\nValueError: once more") == 2
    first = runner.first_failures["worker"]
    assert "node worker/0 failed: ValueError: once more" in first


ROLES = ("replay", "trainer", "proxy", "worker", "evaluator")


@pytest.mark.parametrize("role", ["proxy", "worker", "evaluator"])
def test_a_node_without_state_is_restarted_alone(start_runner, role):
  started = start_runner(**dict.fromkeys(ROLES, wait_for_stop))
  before = {other: started.pid(f"{other}/0") for other in ROLES}
  started.kill(f"{role}/0")
  started.runner.stop()
  started.wait()
  after = {other: started.pid(f"{other}/0") for other in ROLES}
  assert after.pop(role) != before.pop(role)
  assert after == before
  assert started.runner.restarts == {f"{role}/0": 1}


@pytest.mark.parametrize("role", ["trainer", "replay"])
def test_the_end_of_a_node_with_state_ends_all(start_runner, role):
  started = start_runner(**dict.fromkeys(ROLES, wait_for_stop))
  pids = [started.pid(f"{other}/0") for other in ROLES]
  os.kill(started.pid(f"{role}/0"), signal.SIGKILL)
  with pytest.raises(
    failures.StateLostError, match=rf"{role}/0 was ended by SIGKILL"
  ):
    started.wait()
  polling.wait_until(lambda: not any(polling.is_alive(pid) for pid in pids))


def test_a_node_that_keeps_failing_ends_the_run(make_runner, tmp_path):
  def fail():
    raise ValueError(f"life {count_starts(tmp_path / 'starts')}\nof 3")

  def learn():
    link.own_stop_event.get().wait()
    print("shutdown signal")

  runner = make_runner(trainer=learn, worker=fail)
  with pytest.raises(
    RuntimeError, match=r"^node worker/0 failed: ValueError: life 1 \(log: "
  ) as error:
    runner.run()
  whole = error.value.failure.traceback
  assert whole.startswith("Traceback (most recent call last):\n")
  assert whole.endswith("\nValueError: life 1\nof 3\n")
  # The other nodes had time to end in order.
  assert "shutdown signal" in (tmp_path / "trainer" / "0").read_text()


def test_an_error_is_reported_instead_of_an_earlier_kill(make_runner, tmp_path):
  def fail():
    if count_starts(tmp_path / "starts") == 1:
      os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("a bug")

  with pytest.raises(RuntimeError, match="failed: ValueError: a bug"):
    make_runner(worker=fail).run()


def test_nodes_end_stage_by_stage(start_runner, tmp_path):
  def end_late():
    link.own_stop_event.get().wait()
    time.sleep(0.3)

  started = start_runner(**dict.fromkeys(ROLES, end_late))
  started.runner.stop(last_stage=0)  # as where another machine has workers
  polling.wait_until(lambda: started.log_text.count("has ended") == 3)
  assert started.runner.alive_roles == {"trainer", "replay"}
  time.sleep(0.5)
  assert started.runner.alive_roles == {"trainer", "replay"}
  started.runner.stop()
  started.wait()
  ends = re.findall(r"(\w+)/0 has ended", started.log_text)
  assert set(ends[:3]) == {"worker", "proxy", "evaluator"}
  assert ends[3:] == ["trainer", "replay"]


def test_woken_threads_of_nodes_interrupt_none(start_runner):
  started = start_runner(worker=wait_for_file("/none"))
  pid = started.pid("worker/0")
  polling.wait_until(lambda: os.sched_getscheduler(pid) == os.SCHED_BATCH)
  assert os.sched_getscheduler(0) == os.SCHED_OTHER
  started.runner.stop()
  started.wait()


@pytest.mark.parametrize("role", ["worker", "trainer"])
def test_a_node_that_does_not_end_is_killed(
  start_runner, tmp_path, monkeypatch, role
):
  monkeypatch.setattr(stages, "_GRACE_S", (0.3, 0.3, 0.3))
  monkeypatch.setattr(stages, "_LAST_SNAPSHOT_S", {True: 0.1, False: 600.0})
  monkeypatch.setattr(runner_lib, "_START_S", 0.1)
  started = start_runner(**{role: lambda: time.sleep(600)})
  started.runner.stop(is_quick=True)
  if role == "trainer":
    with pytest.raises(RuntimeError, match="the run's last snapshot may be"):
      started.wait()
  started._thread.join(60)
  assert f"{role}/0 was killed, because" in started.log_text


def test_a_stopping_run_restarts_no_node(start_runner, tmp_path):
  started = start_runner(
    worker=wait_for_file("/none"), trainer=wait_for_file(tmp_path / "go")
  )
  # As another machine's workers run, the trainer goes on.
  os.kill(started.pid("worker/0"), signal.SIGSTOP)
  started.runner.stop(last_stage=0)
  os.kill(started.pid("worker/0"), signal.SIGKILL)
  polling.wait_until(lambda: "was ended by SIGKILL" in started.log_text)
  started.runner.stop()
  started.wait()
  assert started.runner.restarts == {}


@pytest.mark.parametrize("role", ["replay", "trainer"])
def test_a_stopping_run_needs_the_nodes_with_state(start_runner, role):
  started = start_runner(
    **{role: wait_for_file("/none"), "worker": lambda: time.sleep(600)}
  )
  started.runner.stop()
  os.kill(started.pid(f"{role}/0"), signal.SIGKILL)
  os.kill(started.pid("worker/0"), signal.SIGKILL)
  with pytest.raises(RuntimeError, match=f"{role}/0 was ended by SIGKILL"):
    started.wait()
  assert started.runner.restarts == {}


def test_pending_restarts_when_the_run_stops(start_runner, monkeypatch):
  monkeypatch.setattr(failures, "_FIRST_DELAY_S", 600.0)
  monkeypatch.setattr(failures, "_LONGEST_DELAY_S", 600.0)
  started = start_runner(trainer=wait_for_stop, worker=wait_for_stop)
  os.kill(started.pid("worker/0"), signal.SIGKILL)
  polling.wait_until(lambda: "will be restarted in 600.0 s" in started.log_text)
  started.runner.stop()
  started.wait()
  assert started.runner.restarts == {}


def test_workers_are_added_and_removed(start_runner, tmp_path):
  requests = []  # index and count of each worker that the runner made

  def make(index, count):
    requests.append((index, count))
    return prepare(f"worker/{index}", wait_for_stop)

  started = start_runner(make, trainer=wait_for_stop, worker=wait_for_stop)

  def list_running():
    pids = {i: started.pid(f"worker/{i}") for i in range(10)}
    return [i for i, pid in pids.items() if pid and polling.is_alive(pid)]

  first = started.pid("worker/0")
  before = 1
  for count in (3, 1, 4, 2, 5, 1, 2):
    requests.clear()
    started.runner.set_workers(count)
    polling.wait_until(lambda n=count: list_running() == list(range(n)))
    # Remaining workers are not restarted.
    made = [(index, count) for index in range(before, count)]
    assert sorted(requests) == made
    before = count
  assert started.pid("worker/0") == first
  started.kill("worker/1")
  started.runner.set_workers(0)
  polling.wait_until(lambda: list_running() == [])
  started.runner.stop()
  started.wait()
  assert started.runner.restarts["worker/1"] >= 1


def test_all_nodes_are_killed_at_once(start_runner):
  started = start_runner(
    trainer=lambda: time.sleep(600), worker=wait_for_file("/none")
  )
  pids = [started.pid(name) for name in ("trainer/0", "worker/0")]
  started.runner.kill_at_once()
  with pytest.raises(KeyboardInterrupt):
    started.wait()
  polling.wait_until(lambda: not any(polling.is_alive(pid) for pid in pids))


def test_killing_before_any_node_has_started(make_runner):
  runner = make_runner(worker=wait_for_file("/none"))
  runner.kill_at_once()
  with pytest.raises(KeyboardInterrupt):
    runner.run()


def kill_server():
  """Kills the fork server, which is a child of this process."""
  (server,) = [
    child
    for child in psutil.Process().children()
    if polling.is_alive(child.pid)
    and "import forking" in " ".join(child.cmdline())
  ]
  server.kill()


def test_the_end_of_the_fork_server_ends_all_nodes(start_runner, make_runner):
  started = start_runner(trainer=wait_for_stop, worker=wait_for_stop)
  pids = [started.pid(name) for name in ("trainer/0", "worker/0")]
  kill_server()
  with pytest.raises(
    failures.StateLostError, match=r"^the fork server was ended by SIGKILL"
  ):
    started.wait()
  polling.wait_until(lambda: not any(polling.is_alive(pid) for pid in pids))
  make_runner(worker=lambda: None).run()  # has another server


def test_the_end_of_the_fork_server_as_the_run_stops(start_runner):
  started = start_runner(trainer=wait_for_stop, worker=lambda: time.sleep(600))
  started.runner.stop()
  kill_server()
  with pytest.raises(RuntimeError, match=r"^the fork server was ended by"):
    started.wait()


# how the node ends
@pytest.mark.parametrize("how", ["is killed", "fails", "ends"])
def test_processes_of_an_environment_end_with_its_node(
  start_runner, tmp_path, how
):
  def work():
    if not (tmp_path / "pids").exists():
      child = subprocess.Popen(["sleep", "600"], start_new_session=True)
      # The daemon's parent ends at once.
      daemon = subprocess.run(
        ["sh", "-c", "setsid sleep 600 > /dev/null & echo $!"],
        stdout=subprocess.PIPE,
        check=True,
      )
      (tmp_path / "new").write_bytes(b"%d %s" % (child.pid, daemon.stdout))
      (tmp_path / "new").rename(tmp_path / "pids")
      wait_for_file(tmp_path / "go")()
      if how == "fails":
        raise ValueError("an environment's error")
      if how == "ends":
        return
    wait_for_file(tmp_path / "end")()

  started = start_runner(worker=work, trainer=wait_for_file(tmp_path / "end"))
  polling.wait_until((tmp_path / "pids").exists)
  pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
  time.sleep(0.5)  # the runner must not kill them as leftovers
  assert all(polling.is_alive(pid) for pid in pids)
  if how == "is killed":
    started.kill("worker/0")
  (tmp_path / "go").touch()
  polling.wait_until(lambda: not any(polling.is_alive(pid) for pid in pids))
  (tmp_path / "end").touch()
  started.wait()


def test_a_node_that_prints_endlessly(start_runner, tmp_path):
  def work():
    line = "0" * 99
    while not os.path.exists(tmp_path / "go"):
      print(line)
      os.write(2, b"1" * 99_999 + b"\n")  # bypasses Python's streams
      time.sleep(0.002)
    raise ValueError("the last line")

  started = start_runner(worker=work)
  log = tmp_path / "worker" / "0"
  polling.wait_until(
    lambda: "bytes of this log were dropped" in log.read_bytes()[:99].decode()
  )
  # The log may grow between two checks of the runner.
  for _ in range(20):
    assert log.stat().st_size < 5 * node_lib.MAX_LOG_BYTES
    time.sleep(0.05)
  (tmp_path / "go").touch()
  with pytest.raises(RuntimeError, match="failed: ValueError: the last line"):
    started.wait()
  assert log.stat().st_size <= 2 * node_lib.MAX_LOG_BYTES


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_log_on_a_full_disk_only_loses_the_output(make_runner, tmp_path):
  (tmp_path / "worker").mkdir()
  (tmp_path / "worker" / "0").symlink_to("/dev/full")
  runner = make_runner(worker=lambda: print("is dropped"))
  runner.run()
  assert runner.restarts == {}
