"""Sweeps over several hosts, with each run on a single host."""

import csv
import json
import pathlib
import signal
import sys

import pytest

from tests.machines import runs

pytestmark = [pytest.mark.machines, pytest.mark.timeout(400)]

# A user's own module, which only the host of the `sweep` command has.
_MODULE = """
from gymnasium.envs.classic_control import cartpole

class Own(cartpole.CartPoleEnv):
  pass
"""
_TRAINING = (
  "slipway.launch.commands.attached"  # in the command line of each run
)


class MachineSweep:
  """One sweep that is started on a cluster's head."""

  def __init__(self, cluster, *flags: str, folder=None):
    """Starts the sweep.

    Args:
      cluster: the `conftest.Cluster` on which the runs are placed.
      *flags: flags of `slipway sweep`, besides those for cluster and folder,
        which a resumed sweep has kept.
      folder: folder of all runs, or None for one that all hosts share.
    """
    self._cluster = cluster
    folder = folder or cluster.network.shared / "runs"
    self.path = folder / "swept"
    self._output = cluster.network.folder / "said"
    modules = cluster.network.folder / "modules"
    modules.mkdir(exist_ok=True)
    (modules / "own.py").write_text(_MODULE)
    new = not any(flag.startswith("--resume") for flag in flags)
    self.process = cluster.head.start(
      [sys.executable, "-m", "slipway.launch.commands.cli", "sweep", *flags]
      + [f"--ray_address={cluster.address}"] * new
      + [f"--run_dir={self.path.parent}", "--name=swept"] * new,
      self._output,
      {**cluster.environment, "PYTHONPATH": str(modules)},
    )

  @property
  def output(self) -> str:
    """Output of the command so far."""
    return self._output.read_text()

  def count_done(self) -> int:
    """Returns the number of runs that have ended at a limit."""
    reasons = [
      json.loads(path.read_text())["stopped_because"]
      for path in self.path.glob("*/summary.json")
    ]
    return reasons.count("environment_steps")

  def send_interrupt(self) -> None:
    """Sends SIGINT to the command."""
    for process in self._cluster.head.processes("slipway.launch.commands.cli"):
      process.send_signal(signal.SIGINT)

  def interrupt(self) -> int:
    """Sends SIGINT to the command; returns its exit status."""
    self.send_interrupt()
    return self.process.wait(100)


def count_training(host) -> int:
  """Returns the number of runs that train on a host now."""
  return len(host.processes(_TRAINING))


def test_all_machines_train(cluster):
  sweep = MachineSweep(
    cluster,
    *("--config=ppo:cartpole", "--mode=single", "--seeds=3"),
    "--config.environment.name=own:Own",
    "--config.environment.time_limit=100",
    "--vary=learner.learning_rate=1e-3,1e-4",
    "--config.limits.environment_steps=30_000",
  )
  runs.wait_until(
    lambda: [count_training(host) for host in cluster.hosts] == [2, 2, 2], 120.0
  )
  assert sweep.process.wait(200) == 0, sweep.output
  with (sweep.path / "settings.csv").open(newline="") as file:
    assert [row["done"] for row in csv.DictReader(file)] == ["3", "3"]
  for setting in (0, 1):
    for seed in (1, 2, 3):
      run = sweep.path / f"{setting}-{seed}"
      assert json.loads((run / "config.json").read_text())["seed"] == seed
      for name in ("best.npz", "curves.png", "snapshots/000001/run.json"):
        assert (run / name).stat().st_size, name
      assert "environment steps" in run.with_suffix(".log").read_text()
  for host in cluster.hosts:
    runs.wait_until(lambda host=host: not count_training(host))
    folders = host.run(["ls", "/dev/shm", "/tmp"]).stdout
    assert "slipway-" not in folders, host.name


def test_an_interrupt_and_a_lost_machine(cluster):
  flags = (
    *("--config=ppo:cartpole", "--mode=single", "--seeds=5"),
    "--config.limits.environment_steps=120_000",
  )
  sweep = MachineSweep(cluster, *flags)
  runs.wait_until(
    lambda: len([*sweep.path.glob("*/curves.csv")]) == 5, timeout_s=120.0
  )
  assert sweep.interrupt() == 1, sweep.output
  assert "5 of 5 runs have not ended at a limit" in sweep.output
  assert len([*sweep.path.glob("*/snapshots/0*")]) >= 5

  sweep = MachineSweep(cluster, f"--resume={sweep.path}")
  runs.wait_until(lambda: all(map(count_training, cluster.hosts)), 120.0)
  lost = cluster.hosts[-1]
  lost.cut()
  lost.kill()
  assert sweep.process.wait(250) == 0, sweep.output
  assert sweep.count_done() == 5
  resumes = [
    json.loads(path.read_text())["resumes"]
    for path in sweep.path.glob("*/summary.json")
  ]
  assert resumes == [1] * 5


def test_a_killed_sweep_continues(start_cluster):
  cluster = start_cluster(2)
  sweep = MachineSweep(
    cluster,
    *("--config=ppo:cartpole", "--mode=single", "--seeds=1"),
    "--config.limits.environment_steps=150_000",
    "--config.snapshot.period_s=1.0",
  )
  snapshots = sweep.path / "0-1" / "snapshots"
  runs.wait_until(lambda: any(snapshots.glob("*/manifest.json")), 120.0)
  for process in cluster.head.processes("slipway.launch.commands.cli"):
    process.kill()
  sweep.process.wait(60)
  runs.wait_until(lambda: not any(map(count_training, cluster.hosts)), 60.0)
  sweep = MachineSweep(cluster, f"--resume={sweep.path}")
  assert sweep.process.wait(250) == 0, sweep.output
  summary = json.loads((sweep.path / "0-1" / "summary.json").read_text())
  assert summary["resumes"] == 1


def test_a_folder_that_machines_do_not_share_is_named(cluster):
  sweep = MachineSweep(
    cluster,
    *("--config=ppo:cartpole", "--mode=single", "--seeds=6"),
    "--config.limits.environment_steps=1_000",
    folder=pathlib.Path("/dev/shm/own"),  # each host has its own
  )
  assert sweep.process.wait(120) == 1
  assert "--run_dir that all machines share" in sweep.output


def test_a_cluster_with_too_few_cpus_is_rejected(start_cluster):
  cluster = start_cluster(1)
  sweep = MachineSweep(
    cluster,
    *("--config=apex_dqn:cartpole", "--config.topology.workers=4"),
    "--config.limits.environment_steps=1_000",
  )
  assert sweep.process.wait(60) == 2
  assert "needs 5 CPUs" in sweep.output
  assert len(sweep.output.splitlines()) == 1
