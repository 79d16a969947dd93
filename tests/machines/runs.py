"""Runs on machines: `slipway train --launch=ray` on a host of a cluster."""

import functools
import json
import re
import signal
import sys

import psutil

from tests import polling
from tests.machines import hosts

# Matches the command lines of a run's processes: launcher, host agents, fork
# servers, and the nodes that are forked from those.
_OURS = re.compile(r"launch\.train|ray::Agent|processes import forking")
# Waits until a condition holds; most conditions start a process.
wait_until = functools.partial(polling.wait_until, period_s=0.2)
# Flags of a small run without a limit.
ENDLESS = (
  "--config=apex_dqn:cartpole",
  "--config.evaluation.episodes=5",
  "--config.limits.target_return=inf",
  "--config.snapshot.period_s=5.0",
)


class MachineRun:
  """One run that is started on a cluster's head."""

  def __init__(self, cluster, *flags: str):
    """Starts the run.

    Args:
      cluster: `conftest.Cluster` with at least two machines.
      *flags: flags of `slipway train`, besides those for cluster and folder; by
        default `ENDLESS`.
    """
    self.cluster = cluster
    self.path = cluster.network.shared / "runs" / "a-run"
    self._output = cluster.network.folder / "said"
    new = not any(flag.startswith("--resume") for flag in flags)
    self.process = cluster.head.start(
      [sys.executable, "-m", "slipway.launch.commands.train", "--launch=ray"]
      + [f"--ray_address={cluster.address}"]
      + [f"--run_dir={self.path.parent}", "--name=a-run"] * new
      + [*(flags or ENDLESS)],
      self._output,
      cluster.environment,
    )

  @property
  def output(self) -> str:
    """Terminal output of the run, including that before a resume."""
    return self._output.read_text()

  @property
  def supervisor_log(self) -> str:
    """The event log of the cluster supervisor."""
    return self.log("cluster")

  @property
  def summary(self) -> dict:
    return json.loads((self.path / "summary.json").read_text())

  def status(self) -> dict:
    """Returns the status, which `slipway control` polls on the head."""
    command = [
      sys.executable,
      "-m",
      "slipway.launch.commands.cli",
      "control",
      f"--run={self.path}",
    ]
    output = self.cluster.head.run([*command, "status", "--json"]).stdout
    return json.loads(output)

  def host_of(self, group: str) -> hosts.Host:
    """Returns the host that runs a node group."""
    address = self.status()["machines"][group]["host"]
    (host,) = (h for h in self.cluster.hosts if h.address == address)
    return host

  def kill(self, group: str, node: str) -> None:
    """Kills a node of a node group; waits until another process replaces it."""
    before = self._pid(group, node)
    self.host_of(group).run(["kill", "-9", str(before)])
    wait_until(lambda: self._pid(group, node) != before)

  def wait_for_steps(self, timeout_s: float = 90.0) -> dict:
    """Waits until workers and trainer make more steps; returns the status."""
    before = self.status()

    def have_increased():
      status = self.status()
      steps = ("env_steps", "trainer_steps")
      return all(status[s] > before[s] + 50 for s in steps) and status

    return wait_until(have_increased, timeout_s)

  def wait_for_workers(self, up: int, expected: int) -> dict:
    """Waits until `up` of `expected` workers are up; returns the status."""

    def are_up():
      status = self.status()
      return (
        status["nodes"]["worker"] == {"up": up, "expected": expected} and status
      )

    return wait_until(are_up, 120.0)

  def stop(self) -> int:
    """Stops the run with SIGTERM; returns its exit status."""
    for process in self.cluster.head.processes("slipway.launch.commands.train"):
      process.send_signal(signal.SIGTERM)
    return self.process.wait(60)

  def _pid(self, group: str, node: str) -> int:
    """Returns the ID of a node's newest process, in its host's namespace."""
    log = "runner" if group == "home" else f"runner-{group.replace('/', '-')}"
    return int(re.findall(rf"{node} is process (\d+)", self.log(log))[-1])

  def log(self, name: str) -> str:
    """Returns the contents of one of the run's logs; empty if it is missing."""
    path = self.path / "logs" / name
    return path.read_text() if path.exists() else ""


def left_on(host: hosts.Host) -> list[str]:
  """Returns the command lines of a run's processes on a host."""
  lines = map(_command_line, host.processes())
  return [line for line in lines if _OURS.search(line)]


def _command_line(process: psutil.Process) -> str:
  try:
    return " ".join(process.cmdline()).strip()
  except psutil.Error:
    return ""  # the process has just ended


def get_rejection(host, address: str, *flags: str, **env: str) -> str:
  """Starts a run that must be rejected; returns the line of its error.

  Args:
    host: host on which the run is started.
    address: address of Ray's head.
    *flags: further flags of `slipway train`.
    **env: environment variables in addition to those of `Host.run`.
  """
  run = host.run(
    [sys.executable, "-m", "slipway.launch.commands.train", "--launch=ray"]
    + [f"--ray_address={address}", "--run_dir=/tmp/runs", *flags],
    env=env,
    check=False,
  )
  assert run.returncode == 2
  assert run.stderr.count("\n") == 1, run.stderr
  return run.stderr
