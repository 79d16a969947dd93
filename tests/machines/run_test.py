"""Runs on several hosts, with killed nodes, lost hosts and cut cables."""

import pytest

from tests.machines import runs

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]


@pytest.fixture
def run(cluster):
  """Starts a run without a limit, with four workers on two machines."""
  run = runs.MachineRun(cluster)
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert all(
    map(runs.left_on, cluster.hosts)
  )  # else later checks prove nothing
  return run


def wait_until_nothing_left(hosts, timeout_s):
  def is_empty():
    left = {host.name: runs.left_on(host) for host in hosts}
    assert not any(left.values()), left
    return True

  runs.wait_until(is_empty, timeout_s)


def test_cartpole_is_trained(cluster):
  run = runs.MachineRun(cluster, "--config=apex_dqn:cartpole")
  assert run.process.wait(300) == 0, run.output
  assert run.summary["stopped_because"] == "target_return"
  # All logs and results are in the run's folder, on the driver's machine.
  for name in (
    *("logs/trainer/0", "logs/runner", "logs/runner-workers-1"),
    *("best.npz", "curves.png", "snapshots/000001/run.json"),
  ):
    assert (run.path / name).stat().st_size, name
  for name in ("evaluator/0", "worker/3"):
    assert (run.path / "logs" / name).exists(), name
  wait_until_nothing_left(cluster.hosts, 30.0)
  for host in cluster.hosts:
    folders = host.run(["ls", "/dev/shm", "/tmp"]).stdout
    assert "slipway-" not in folders, host.name


def test_killed_nodes_are_restarted(cluster, run):
  status = run.status()
  assert status["nodes"]["proxy"] == {"up": 3, "expected": 3}
  assert {group["up"] for group in status["machines"].values()} == {True}
  for group, node in (
    ("workers/1", "worker/0"),
    ("workers/1", "proxy/1"),
    ("home", "trainer/0"),
    ("home", "evaluator/0"),
  ):
    run.kill(group, node)
    run.wait_for_workers(4, 4)
    run.wait_for_steps()
  assert run.stop() == 0, run.output
  assert run.summary["stopped_because"] == "SIGTERM"
  wait_until_nothing_left(cluster.hosts, 30.0)


def test_the_limit_on_steps_is_that_of_all_workers_together(cluster):
  """The driver's machine gets no share of the limit: it has no workers."""
  limit = "--config.rates.environment_steps_per_s"
  run = runs.MachineRun(cluster, *runs.ENDLESS, f"{limit}=200")
  run.wait_for_workers(4, 4)
  run.wait_for_steps()

  def is_reached():
    return 160 < run.status()["rates"]["env_steps_per_s"] < 220

  runs.wait_until(is_reached)
  assert run.stop() == 0, run.output


def test_a_lost_machine_and_two_that_join(cluster, run):
  lost = run.host_of("workers/1")
  lost.cut()  # as in a loss of power, its connections are not closed
  lost.kill()
  runs.wait_until(lambda: "workers/1 on" in run.supervisor_log, 30.0)
  status = run.wait_for_workers(2, 4)
  assert not status["machines"]["workers/1"]["up"]
  run.wait_for_steps()
  cluster.add()
  run.wait_for_workers(4, 4)
  cluster.add()  # the run now has one machine more than at its start
  run.wait_for_workers(6, 6)
  proxies = {"up": 4, "expected": 4}
  runs.wait_until(lambda: run.status()["nodes"]["proxy"] == proxies)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_cable_that_is_cut_for_a_moment(run):
  cut = run.host_of("workers/2")
  cut.cut()
  run.wait_for_steps()  # the other workers make these
  cut.reconnect()
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_cable_that_is_cut_for_long(run):
  cut = run.host_of("workers/2")
  cut.cut()
  runs.wait_until(lambda: "workers/2 on" in run.supervisor_log, 30.0)
  run.wait_for_steps()
  wait_until_nothing_left([cut], 70.0)
  cut.reconnect()
  run.cluster.rejoin(cut)
  run.wait_for_workers(4, 4)
  run.wait_for_steps()
  assert run.stop() == 0, run.output


def test_a_killed_driver(cluster, run):
  runs.wait_until(lambda: run.status()["snapshots"]["written"] > 0)
  limit = run.status()["env_steps"] + 20_000
  (driver,) = cluster.head.processes("slipway.launch.commands.train")
  driver.kill()
  wait_until_nothing_left(cluster.hosts, 70.0)
  resumed = runs.MachineRun(
    cluster,
    f"--resume={run.path}",
    f"--config.limits.environment_steps={limit}",
  )
  assert resumed.process.wait(120) == 0, resumed.output
  assert resumed.summary["stopped_because"] == "environment_steps"
  assert resumed.summary["resumes"] == 1


def test_a_dead_head(cluster, run):
  cluster.head.kill()
  wait_until_nothing_left(cluster.hosts[1:], 70.0)


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
  status = run.wait_for_steps()
  assert status["resumes"] >= 1
  assert "resumes from snapshot" in run.log("trainer/0")
  assert run.stop() == 0, run.output


def test_a_run_waits_for_missing_machines(cluster):
  run = runs.MachineRun(
    cluster,
    *runs.ENDLESS,
    "--config.topology.machines=3",
    "--wait_for_machines",
  )
  runs.wait_until(lambda: "waiting: the run needs 4 machines" in run.output)
  cluster.add()
  log = run.path / "logs/worker/5"
  runs.wait_until(lambda: log.exists() and log.stat().st_size)
  assert run.stop() == 0, run.output


def test_a_run_with_too_few_machines_is_rejected(cluster):
  run = runs.MachineRun(cluster, *runs.ENDLESS, "--config.topology.machines=7")
  assert run.process.wait(60) == 2
  (line,) = run.output.splitlines()
  assert "needs 8 machines" in line
  assert "has 3" in line
  assert not run.path.exists()
