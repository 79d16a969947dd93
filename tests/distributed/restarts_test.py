"""Restarts: killed processes of a run, and a varying number of workers."""

import os
import signal

import pytest

# A start-up takes about 10 s on all cores, and longer if they are shared.
pytestmark = [pytest.mark.runs, pytest.mark.timeout(240)]


def pids(run):
  """Returns the process IDs of all nodes that have a process, by node."""
  return {node: process.pid for node, process in run.nodes().items()}


def kill(run, node):
  """Kills a node; waits until it has a new process."""
  before = pids(run)[node]
  os.kill(before, signal.SIGKILL)
  run.wait_until(lambda: pids(run).get(node, before) != before)


def wait_for_steps(run):
  """Waits until the counts of environment and trainer steps have increased."""
  env_steps, trainer_steps = 0, 0
  for _ in range(2):  # counts first decrease if steps were lost
    seen = run.status()
    env_steps, trainer_steps = seen["env_steps"], seen["trainer_steps"]
  keys = ("env_steps", "trainer_steps")

  def have_increased():
    nonlocal env_steps, trainer_steps
    now = [run.status()[key] for key in keys]
    env_steps, trainer_steps = (
      min(env_steps, now[0]),
      min(trainer_steps, now[1]),
    )
    return now[0] > env_steps and now[1] > trainer_steps

  run.wait_until(have_increased)


def end(run):
  """Stops a run; asserts that it ends without an error or a process left."""
  run.launcher.terminate()
  assert run.wait() == 0, run.stderr
  assert run.stderr == ""
  run.check_nothing_left()


def test_nodes_without_state_are_restarted(start_run):
  run = start_run("--config.restarts.budget=2")
  run.wait_until_learning()
  nodes = ["proxy/0", "worker/1", "evaluator/0"]
  for node in nodes:
    others = {other: pid for other, pid in pids(run).items() if other != node}
    kill(run, node)
    wait_for_steps(run)
    assert others.items() <= pids(run).items()
  assert run.status()["nodes"]["worker"]["up"] == 2
  log = run.log("runner")
  for node in nodes:
    assert f"node {node} was ended by SIGKILL" in log
    assert f"{node} will be restarted" in log
  end(run)
  # A worker survived its proxy, and connected to the new one.
  assert run.summary["reconnects"] >= 1
  restarts = run.summary["node_restarts"]
  assert restarts.items() >= dict.fromkeys(nodes, 1).items()


@pytest.mark.parametrize("replay", ["with_trainer", "own_process"])
def test_a_run_resumes_when_a_node_with_state_dies(start_run, control, replay):
  run = start_run(
    f"--config.topology.replay={replay}",
    "--config.snapshot.period_s=3_600",
  )
  run.wait_until_learning()
  assert control(run, "workers", "3") == "workers are 3 now\n"
  control(run, "set", "limits.target_return", "490")
  control(run, "save")
  run.wait_until(lambda: run.status()["snapshots"]["written"] == 1)
  for count, node in enumerate(("trainer/0", "replay/0", "trainer/0"), 1):
    if replay == "with_trainer" and node == "replay/0":
      node = "trainer/0"
    before = run.status()
    kill(run, node)
    run.wait_until(lambda n=count: run.status()["resumes"] == n)
    wait_for_steps(run)
    seen = run.status()
    # What users have changed stays changed.
    assert seen["nodes"]["worker"]["expected"] == 3
    assert seen["limits"]["target_return"] == 490.0
    assert seen["wall_s"] > before["wall_s"]
    assert seen["variables"]["version"] > before["variables"]["version"]
  end(run)
  assert run.summary["resumes"] == 3
  assert run.summary["stopped_because"] == "SIGTERM"
  assert run.stdout.count("resuming from the newest snapshot: node ") == 3
  rows = [row["env_steps"] for row in run.evaluations]
  assert rows == sorted(rows)


def test_a_run_without_a_snapshot_begins_again(start_run):
  run = start_run("--config.snapshot.period_s=3_600")
  run.wait_until_learning()
  before = run.status()
  kill(run, "trainer/0")
  wait_for_steps(run)
  assert run.status()["resumes"] == 1
  assert run.status()["wall_s"] > before["wall_s"]
  end(run)


def test_a_trainer_that_keeps_dying_ends_the_run(start_run):
  run = start_run("--config.restarts.budget=1")
  run.wait_until_learning()
  kill(run, "trainer/0")
  os.kill(pids(run)["trainer/0"], signal.SIGKILL)
  assert run.wait() == 1
  (line,) = run.stderr.splitlines()
  assert "node trainer/0 was ended by SIGKILL" in line
  run.check_nothing_left()
  assert run.summary["stopped_because"] == "failure"


def test_a_node_that_keeps_failing_ends_the_run(start_run):
  run = start_run("--config.restarts.budget=2")
  run.wait_until_learning()
  for _ in range(2):
    kill(run, "worker/1")
  os.kill(pids(run)["worker/1"], signal.SIGKILL)
  assert run.wait() == 1
  (line,) = run.stderr.splitlines()
  assert "node worker/1 was ended by SIGKILL" in line
  assert str(run.path / "logs" / "worker" / "1") in line
  run.check_nothing_left()
  assert run.summary["stopped_because"] == "failure"


def test_a_nodes_error_is_shown_whole(start_run):
  run = start_run("--config.restarts.budget=0")
  run.wait_until(run.path.is_dir)
  (run.path / "best.npz").mkdir()  # the evaluator can't write its file
  assert run.wait() == 1
  first, *_, error, line = run.stderr.splitlines()
  assert first == "Traceback (most recent call last):"
  assert error.startswith("OSError: ")
  assert line == (
    f"train: node evaluator/0 failed: {error} (log: "
    f"{run.path / 'logs' / 'evaluator' / '0'})"
  )
  run.check_nothing_left()


def test_workers_are_added_and_removed_and_snapshots_are_requested(
  start_run, control
):
  run = start_run("--config.snapshot.period_s=3_600")
  # The signal must not end nodes that are still starting.
  run.wait_until(lambda: run.processes("trainer/0"))
  os.killpg(run.launcher.pid, signal.SIGUSR1)
  run.wait_until_learning()
  run.wait_until(lambda: run.status()["snapshots"]["written"] == 1)
  os.killpg(run.launcher.pid, signal.SIGUSR1)
  run.wait_until(lambda: run.status()["snapshots"]["written"] == 2)
  assert control(run, "save") == "a snapshot is being written\n"
  run.wait_until(lambda: run.status()["snapshots"]["written"] == 3)
  wait_for_steps(run)
  assert "was ended by" not in run.log("runner")

  for count in (4, 1, 2):
    assert control(run, "workers", str(count)) == f"workers are {count} now\n"
    workers = {f"worker/{index}" for index in range(count)}

    def has_target(count=count, workers=workers):
      alive = {node for node in pids(run) if node.startswith("worker/")}
      up = run.status()["nodes"]["worker"]
      return alive == workers and up == {"up": count, "expected": count}

    run.wait_until(has_target)
    wait_for_steps(run)
  log = run.log("runner")
  assert "failed" not in log
  assert "was ended by" not in log
  end(run)


def wait_until_paused(run):
  """Waits until the counts of steps stop increasing; returns the counts."""
  seen = []

  def is_paused():
    status = run.status()
    seen.append((status["env_steps"], status["trainer_steps"]))
    return len(seen) > 20 and len(set(seen[-20:])) == 1

  run.wait_until(is_paused)
  return seen[-1]


@pytest.mark.parametrize("has_proxy", [True, False])
def test_a_node_that_restarts_during_a_pause_is_paused(
  start_run, control, has_proxy
):
  run = start_run(
    f"--config.topology.proxy={has_proxy}",
    "--config.rates.environment_steps_per_s=0",
    "--config.snapshot.period_s=3_600",
  )
  run.wait_until_learning()
  wait_for_steps(run)
  control(run, "pause")
  counts = wait_until_paused(run)
  control(run, "save")  # a restarted trainer continues from here
  run.wait_until(lambda: run.status()["snapshots"]["written"] == 1)
  nodes = ["proxy/0"] * has_proxy + ["worker/0", "trainer/0"]
  for node in nodes:
    kill(run, node)
    if node == "trainer/0":
      run.wait_until(lambda: run.status()["resumes"] == 1)
      assert run.status()["phase"] == "paused"
    else:
      run.wait_until(
        lambda node=node: run.status()["node_restarts"].get(node) == 1
      )
    assert wait_until_paused(run) == counts, node
  control(run, "resume")
  wait_for_steps(run)
  run.launcher.terminate()
  assert run.wait() == 0, run.stderr
