"""Runs over several hosts, of which everything is killed once."""

import pytest

from tests.machines import runs

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]


@pytest.fixture
def run(cluster):
  """A run of four workers on two machines that would go on for ever."""
  run = runs.MachineRun(cluster)
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert all(map(runs.left_on, cluster.hosts))  # else they would not be missed
  return run


def leaves_nothing(hosts, timeout_s):
  def nothing_left():
    left = {host.name: runs.left_on(host) for host in hosts}
    assert not any(left.values()), left
    return True

  runs.wait_until(nothing_left, timeout_s)


def test_cartpole_is_trained(cluster):
  run = runs.MachineRun(cluster, "--config=apex_dqn:cartpole")
  assert run.process.wait(300) == 0, run.said
  assert run.summary["stopped_because"] == "target_return"
  # All logs and results are where it was started.
  for name in (
    *("logs/trainer/0", "logs/runner", "logs/runner-workers-1"),
    *("best.npz", "curves.png", "snapshots/000001/run.json"),
  ):
    assert (run.path / name).stat().st_size, name
  for name in ("evaluator/0", "worker/3"):
    assert (run.path / "logs" / name).exists(), name
  leaves_nothing(cluster.hosts, 30.0)
  for host in cluster.hosts:
    folders = host.run(["ls", "/dev/shm", "/tmp"]).stdout
    assert "slipway-" not in folders, host.name


def test_who_dies_comes_back(cluster, run):
  status = run.status()
  assert status["nodes"]["proxy"] == {"up": 3, "expected": 3}
  assert {part["up"] for part in status["machines"].values()} == {True}
  for part, node in (
    ("workers/1", "worker/0"),
    ("workers/1", "proxy/1"),
    ("home", "trainer/0"),
    ("home", "control/0"),
  ):
    run.kill(part, node)
    run.wait_for_workers(4, 4)
    run.wait_for_steps()
  assert run.stop() == 0, run.said
  assert run.summary["stopped_because"] == "SIGTERM"
  leaves_nothing(cluster.hosts, 30.0)


def test_the_limit_on_steps_is_that_of_all_workers_together(cluster):
  """The driver's machine has a proxy without workers, and no share of it."""
  limit = "--config.rates.environment_steps_per_s"
  run = runs.MachineRun(cluster, *runs.ENDLESS, f"{limit}=200")
  run.wait_for_workers(4, 4)
  run.wait_for_steps()

  def is_reached():
    return 160 < run.status()["rates"]["env_steps_per_s"] < 220

  runs.wait_until(is_reached)
  assert run.stop() == 0, run.said


def test_a_lost_machine_and_two_that_join(cluster, run):
  lost = run.host_of("workers/1")
  lost.cut()  # the power is lost: nobody closes its connections
  lost.kill()
  runs.wait_until(lambda: "workers/1 on" in run.supervisor_log, 30.0)
  status = run.wait_for_workers(2, 4)
  assert not status["machines"]["workers/1"]["up"]
  run.wait_for_steps()
  cluster.add()
  run.wait_for_workers(4, 4)
  cluster.add()  # one more than it began with
  status = run.wait_for_workers(6, 6)
  assert status["nodes"]["proxy"] == {"up": 4, "expected": 4}
  run.wait_for_steps()
  assert run.stop() == 0, run.said


def test_a_cable_that_is_cut_for_a_moment(run):
  cut = run.host_of("workers/2")
  cut.cut()
  run.wait_for_steps()  # of the others
  cut.mend()
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert run.stop() == 0, run.said


def test_a_cable_that_is_cut_for_long(run):
  cut = run.host_of("workers/2")
  cut.cut()
  runs.wait_until(lambda: "workers/2 on" in run.supervisor_log, 30.0)
  run.wait_for_steps()
  leaves_nothing([cut], 70.0)
  cut.mend()
  run.cluster.rejoin(cut)
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert run.stop() == 0, run.said


def test_a_killed_driver(cluster, run):
  (driver,) = cluster.head.processes("slipway.launch.train")
  driver.kill()
  leaves_nothing(cluster.hosts, 70.0)
  # The control node has ended the run all the same, and it can go on.
  assert run.summary["stopped_because"] == "launcher_lost"
  limit = run.summary["env_steps"] + 2_000
  resumed = runs.MachineRun(
    cluster,
    f"--resume={run.path}",
    f"--config.limits.environment_steps={limit}",
  )
  assert resumed.process.wait(120) == 0, resumed.said
  assert resumed.summary["stopped_because"] == "environment_steps"
  assert resumed.summary["resumes"] == 1


def test_a_dead_head(cluster, run):
  cluster.head.kill()
  leaves_nothing(cluster.hosts[1:], 70.0)


def test_the_trainers_own_machine_is_lost(cluster):
  run = runs.MachineRun(
    cluster,
    *runs.ENDLESS,
    "--config.topology.trainer_machine=own",
    "--config.topology.machines=1",
    f"--config.snapshot.url={cluster.network.shared / 'store'}",
  )
  run.wait_for_workers(2, 2)
  run.wait_for_steps()
  runs.wait_until(lambda: run.status()["snapshots"]["written"])
  first = run.host_of("trainer")
  assert first is not cluster.head
  first.cut()
  first.kill()
  cluster.add()
  runs.wait_until(
    lambda: run.supervisor_log.count("trainer has started") == 2, 90.0
  )
  assert run.host_of("trainer") is not first
  # Those steps that no snapshot had are lost, and said to be.
  status = run.wait_for_steps()
  assert status["trainer_steps_lost"] > 0
  assert "resumes from snapshot" in run.log("trainer/0")
  assert run.stop() == 0, run.said


def test_too_few_machines_are_waited_for(cluster):
  run = runs.MachineRun(
    cluster,
    *runs.ENDLESS,
    "--config.topology.machines=3",
    "--config.limits.environment_steps=2_000",
    "--wait_for_machines",
  )
  runs.wait_until(lambda: "waiting: the run needs 4 machines" in run.said)
  cluster.add()
  assert run.process.wait(120) == 0, run.said
  assert run.summary["stopped_because"] == "environment_steps"
  assert (run.path / "logs/proxy/3").stat().st_size


def test_too_few_machines(cluster):
  run = runs.MachineRun(cluster, "--config.topology.machines=7")
  assert run.process.wait(60) == 2
  (line,) = run.said.splitlines()
  assert "needs 8 machines" in line
  assert "has 3" in line
  assert not run.path.exists()
