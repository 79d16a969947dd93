"""Tests of the runner with real processes that fail, hang and end."""

import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver

import cloudpickle
import launchpad as lp
import psutil
import pytest

from slipway.launch.processes import (
  fork_server,
  node_log,
  prepared_nodes,
  restart_budget,
  signals,
)
from slipway.launch.processes import runner as runner_lib
from tests import polling

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module", autouse=True)
def server():
  """Runs a fork server, which imports TensorFlow once for all tests."""
  with fork_server.run_server({"TF_CPP_MIN_LOG_LEVEL": "2"}):
    yield


def prepare(name, function):
  role = name.partition("/")[0]
  return prepared_nodes.PreparedNode(
    name, cloudpickle.dumps(function), {"NODE": role}
  )


class Started:
  """A runner in a thread."""

  def __init__(self, nodes, logs, make_worker, shards):
    self.runner = runner_lib.Runner(nodes, logs, 2, 60.0, make_worker, shards)
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
def make_runner(tmp_path):
  """Returns a function that makes a runner.

  The nodes' functions are given by role. Each node may fail twice.
  """

  def make(**functions):
    nodes = [prepare(f"{role}/0", f) for role, f in functions.items()]
    return runner_lib.Runner(nodes, tmp_path, 2, 60.0, no_more_workers)

  return make


@pytest.fixture
def start_runner(tmp_path):
  """Yields a function that starts a runner in a thread, and kills all nodes.

  The nodes' functions are given by role.
  """
  started = []

  def start(make_worker=no_more_workers, shards=1, **functions):
    nodes = [prepare(f"{role}/0", f) for role, f in functions.items()]
    started.append(Started(nodes, tmp_path, make_worker, shards))
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
    while not os.path.exists(path) and not lp.stop_event().is_set():
      time.sleep(0.01)

  return run


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


@pytest.mark.parametrize("role", ["trainer", "proxy", "worker", "evaluator"])
def test_a_node_is_restarted_without_the_others(start_runner, tmp_path, role):
  roles = ("replay", "trainer", "proxy", "worker", "evaluator")
  started = start_runner(**dict.fromkeys(roles, wait_for_file(tmp_path / "go")))
  before = {other: started.pid(f"{other}/0") for other in roles}
  started.kill(f"{role}/0")
  (tmp_path / "go").touch()
  started.wait()
  after = {other: started.pid(f"{other}/0") for other in roles}
  assert after.pop(role) != before.pop(role)
  assert after == before
  assert started.runner.restarts == {f"{role}/0": 1}


def test_a_trainer_is_restarted_with_the_only_replay(start_runner, tmp_path):
  started = start_runner(
    replay=wait_for_file(tmp_path / "go"),
    trainer=wait_for_file(tmp_path / "go"),
    worker=wait_for_file(tmp_path / "go"),
  )
  for _ in range(2):
    trainer = started.pid("trainer/0")
    started.kill("replay/0")
    polling.wait_until(
      lambda before=trainer: started.pid("trainer/0") != before
    )
    assert not psutil.pid_exists(trainer)
  # The trainer's own budget of 2 restarts is unused.
  for _ in range(2):
    started.kill("trainer/0")
  (tmp_path / "go").touch()
  started.wait()
  assert started.runner.restarts == {"replay/0": 2, "trainer/0": 4}
  # The replay node, to which the trainer connects, starts first.
  names = re.findall(r" (\S+) is process", started.log_text)
  assert names[3:7] == ["replay/0", "trainer/0"] * 2


def test_one_of_several_replay_nodes_is_restarted_alone(start_runner, tmp_path):
  started = start_runner(
    shards=2,
    replay=wait_for_file(tmp_path / "go"),
    trainer=wait_for_file(tmp_path / "go"),
  )
  trainer = started.pid("trainer/0")
  started.kill("replay/0")
  assert started.pid("trainer/0") == trainer
  (tmp_path / "go").touch()
  started.wait()
  assert started.runner.restarts == {"replay/0": 1}


@pytest.mark.parametrize("role", ["worker", "replay"])
def test_a_node_that_keeps_failing_ends_the_run(make_runner, tmp_path, role):
  def fail():
    raise ValueError(f"life {count_starts(tmp_path / 'starts')}\nof 3")

  def learn():
    lp.stop_event().wait()
    print("shutdown signal")

  runner = make_runner(evaluator=learn, **{role: fail})
  with pytest.raises(
    RuntimeError, match=rf"^node {role}/0 failed: ValueError: life 1 \(log: "
  ) as error:
    runner.run()
  whole = error.value.failure.traceback
  assert whole.startswith("Traceback (most recent call last):\n")
  assert whole.endswith("\nValueError: life 1\nof 3\n")
  # The other nodes had time to end in order.
  assert "shutdown signal" in (tmp_path / "evaluator" / "0").read_text()


def test_an_error_is_reported_instead_of_an_earlier_kill(make_runner, tmp_path):
  def fail():
    if count_starts(tmp_path / "starts") == 1:
      os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("a bug")

  with pytest.raises(RuntimeError, match="failed: ValueError: a bug"):
    make_runner(worker=fail).run()


def test_a_node_that_does_not_end_is_killed(make_runner, tmp_path, monkeypatch):
  monkeypatch.setattr(runner_lib, "_GRACE_S", 0.3)
  runner = make_runner(worker=lambda: time.sleep(600))
  runner.end_soon()
  runner.run()
  assert (
    "killed, because they did not end: worker/0"
    in (tmp_path / "runner").read_text()
  )


@pytest.mark.parametrize("role", ["proxy", "worker", "evaluator"])
def test_a_stopping_run_does_not_need_some_roles(start_runner, tmp_path, role):
  nodes = {
    role: wait_for_file("/none"),
    "trainer": wait_for_file(tmp_path / "go"),
  }
  started = start_runner(**nodes)
  started.runner.stop_restarting()
  os.kill(started.pid(f"{role}/0"), signal.SIGKILL)
  polling.wait_until(lambda: "was ended by SIGKILL" in started.log_text)
  (tmp_path / "go").touch()
  started.wait()
  assert started.runner.restarts == {}


@pytest.mark.parametrize("role", ["replay", "trainer"])
def test_a_stopping_run_needs_the_other_roles(start_runner, role):
  started = start_runner(
    **{role: wait_for_file("/none"), "worker": wait_for_file("/none")}
  )
  started.runner.stop_restarting()
  os.kill(started.pid(f"{role}/0"), signal.SIGKILL)
  with pytest.raises(RuntimeError, match=f"{role}/0 was ended by SIGKILL"):
    started.wait()
  assert started.runner.restarts == {}


def test_pending_restarts_when_the_run_stops(
  start_runner, tmp_path, monkeypatch
):
  monkeypatch.setattr(restart_budget, "_FIRST_DELAY_S", 600.0)
  monkeypatch.setattr(restart_budget, "_LONGEST_DELAY_S", 600.0)
  go = wait_for_file(tmp_path / "go")
  started = start_runner(trainer=go, worker=go, evaluator=go)
  for role in ("trainer", "worker"):
    os.kill(started.pid(f"{role}/0"), signal.SIGKILL)
  polling.wait_until(
    lambda: started.log_text.count("will be restarted in 600.0 s") == 2
  )
  trainer = started.pid("trainer/0")
  started.runner.stop_restarting()
  # The trainer restarts at once, as it has to save.
  polling.wait_until(lambda: started.pid("trainer/0") != trainer)
  (tmp_path / "go").touch()
  started.wait()
  assert started.runner.restarts == {"trainer/0": 1}


class Workers:
  """A runner's workers, which end when the target number excludes them."""

  def __init__(self, folder, start_runner):
    self._folder = folder
    self.requests = []  # index and count of each worker that the runner made

    def make(index, count):
      self.requests.append((index, count))
      return prepare(f"worker/{index}", wait_for_file(folder / f"stop {index}"))

    end = wait_for_file(folder / "end")
    first = wait_for_file(folder / "stop 0")
    self.started = start_runner(make, trainer=end, worker=first)

  def request(self, count):
    """Sets the number of workers, as the controller does."""
    for index in range(10):
      stop = self._folder / f"stop {index}"
      stop.touch() if index >= count else stop.unlink(missing_ok=True)
    self.set_workers(count)

  def set_workers(self, count):
    self.started.runner.set_workers(count, time.monotonic())

  def list_running(self):
    pids = {i: self.started.pid(f"worker/{i}") for i in range(10)}
    return [i for i, pid in pids.items() if pid and psutil.pid_exists(pid)]


def test_workers_are_added_and_removed(start_runner, tmp_path):
  workers = Workers(tmp_path, start_runner)
  first = workers.started.pid("worker/0")
  before = 1
  for count in (3, 1, 4, 2, 5, 1, 2):
    workers.requests.clear()
    workers.request(count)

    def is_as_requested(count=count):
      workers.set_workers(count)
      return workers.list_running() == list(range(count))

    polling.wait_until(is_as_requested)
    # Remaining workers are not restarted. The runner may handle the end of a
    # worker after the start of another one.
    missing = [(index, count) for index in range(before, count)]
    assert sorted(workers.requests) == missing
    before = count
  assert workers.started.pid("worker/0") == first

  # A failed worker is restarted only if the number of workers includes it.
  workers.started.kill("worker/1")
  workers.set_workers(1)
  os.kill(workers.started.pid("worker/1"), signal.SIGKILL)
  name = "node worker/1 was ended by SIGKILL"
  polling.wait_until(lambda: workers.started.log_text.count(name) == 2)
  workers.requests.clear()
  workers.request(0)
  (tmp_path / "end").touch()
  workers.started.wait()
  assert workers.requests == []


def test_a_worker_that_ends_because_the_run_stops(start_runner, tmp_path):
  workers = Workers(tmp_path, start_runner)
  (tmp_path / "stop 0").touch()
  early_s = time.monotonic()
  polling.wait_until(lambda: "worker/0 has ended" in workers.started.log_text)
  # A number that was read before the worker ended does not restart the worker.
  workers.started.runner.set_workers(1, early_s)
  (tmp_path / "end").touch()
  workers.started.wait()
  assert workers.requests == []


def test_all_nodes_are_killed_at_once(start_runner):
  started = start_runner(
    trainer=lambda: time.sleep(600), worker=wait_for_file("/none")
  )
  pids = [started.pid(name) for name in ("trainer/0", "worker/0")]
  started.runner.kill_at_once()
  with pytest.raises(KeyboardInterrupt):
    started.wait()
  assert not any(psutil.pid_exists(pid) for pid in pids)


def test_killing_before_any_node_has_started(make_runner):
  with pytest.raises(KeyboardInterrupt):
    make_runner(worker=wait_for_file("/none")).kill_at_once()


def test_nodes_ignore_the_signals_of_the_process_group(make_runner, tmp_path):
  def work():
    for number in (
      signal.SIGINT,
      signal.SIGTERM,
      signal.SIGHUP,
      signal.SIGUSR1,
    ):
      os.kill(os.getpid(), number)
    print("still here", lp.stop_event().is_set())

  make_runner(worker=work).run()
  assert "still here False" in (tmp_path / "worker" / "0").read_text()


def server_pid():
  """Returns the pid of the newest fork server of this process."""
  return forkserver._forkserver._forkserver_pid


def kill_server():
  before = server_pid()
  os.kill(before, signal.SIGKILL)
  return before


def test_nodes_survive_the_end_of_their_fork_server(start_runner, tmp_path):
  def fail():
    wait_for_file(tmp_path / "fail")()
    if count_starts(tmp_path / "starts") == 1:
      threading.Thread(target=os._exit, args=[3]).start()
      time.sleep(60.0)

  started = start_runner(
    trainer=wait_for_file(tmp_path / "go"),
    worker=fail,
    proxy=wait_for_file("/none"),
  )
  trainer = started.pid("trainer/0")
  before = kill_server()
  polling.wait_until(
    lambda: "the fork server was ended by SIGKILL" in started.log_text
  )
  assert server_pid() != before
  assert psutil.pid_exists(trainer)
  # The runner knows how each node ends, and restarts it.
  (tmp_path / "fail").touch()
  polling.wait_until(
    lambda: "node worker/0 ended with exit status 3" in started.log_text
  )
  started.kill("proxy/0")
  assert "node proxy/0 was ended by SIGKILL" in started.log_text
  assert psutil.pid_exists(trainer)
  polling.wait_until(lambda: "worker/0 has ended" in started.log_text)
  started.runner.stop_restarting()
  os.kill(started.pid("proxy/0"), signal.SIGKILL)
  (tmp_path / "go").touch()
  started.wait()
  assert started.runner.restarts == {"worker/0": 1, "proxy/0": 1}
  assert started.log_text.count("trainer/0 is process") == 1


def run_nodes(names, logs):
  """Runs nodes that never end; the caller kills this process."""
  nodes = [prepare(name, wait_for_file("/none")) for name in names]
  with fork_server.run_server({}):
    runner_lib.Runner(nodes, logs, 2, 60.0, no_more_workers).run()


@contextlib.contextmanager
def runner_process(logs, *names):
  """Yields a process with a runner, and the processes of its nodes."""
  logs.mkdir()
  process = multiprocessing.get_context("spawn").Process(
    target=run_nodes, args=(names, logs)
  )
  process.start()

  def find_pids():
    with contextlib.suppress(FileNotFoundError):
      log = (logs / "runner").read_text()
      return [int(pid) for pid in re.findall(r" is process ([0-9]+)\n", log)]
    return []

  try:
    polling.wait_until(lambda: len(find_pids()) == len(names))
    yield process, [psutil.Process(pid) for pid in find_pids()]
  finally:
    process.kill()
    process.join()


def is_alive(process):
  with contextlib.suppress(psutil.NoSuchProcess):
    return process.status() != psutil.STATUS_ZOMBIE
  return False


def test_nodes_end_with_their_runner(tmp_path):
  names = ("trainer/0", "worker/0")
  with runner_process(tmp_path / "a", *names) as (runner, nodes):
    runner.kill()
    polling.wait_until(lambda: not any(map(is_alive, nodes)))


def test_a_fork_server_that_ends_while_nodes_start(make_runner, tmp_path):
  runner = make_runner(worker=lambda: None, trainer=lambda: None)
  kill_server()
  runner.run()
  assert runner.restarts == {}
  log_text = (tmp_path / "runner").read_text()
  assert log_text.count("has ended") == 2


def test_a_fork_server_that_keeps_ending_ends_the_run(start_runner):
  started = start_runner(worker=wait_for_file("/none"))
  for count in range(3):
    polling.wait_until(
      lambda count=count: started.log_text.count("the nodes continue") == count
    )
    kill_server()
  with pytest.raises(
    RuntimeError,
    match=r"^the fork server was ended by SIGKILL, more often than",
  ):
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
  assert all(psutil.pid_exists(pid) for pid in pids)
  if how == "is killed":
    started.kill("worker/0")
  (tmp_path / "go").touch()
  polling.wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
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
    assert log.stat().st_size < 5 * node_log.MAX_BYTES
    time.sleep(0.05)
  (tmp_path / "go").touch()
  with pytest.raises(RuntimeError, match="failed: ValueError: the last line"):
    started.wait()
  assert log.stat().st_size <= 2 * node_log.MAX_BYTES


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_log_on_a_full_disk_only_loses_the_output(make_runner, tmp_path):
  (tmp_path / "worker").mkdir()
  (tmp_path / "worker" / "0").symlink_to("/dev/full")
  runner = make_runner(worker=lambda: print("is dropped"))
  runner.run()
  assert runner.restarts == {}
