"""Runs on machines: `slipway train --launch=ray` on a host of a cluster."""

import json
import re
import signal
import sys
import time

import psutil

from tests.machines import hosts

# In the command lines of a run's processes: launcher, agents, fork servers and
# the nodes forked from those.
_OURS = re.compile(r"launch\.train|ray::Agent|multiprocessing")
# Flags of a small run that nothing ends.
ENDLESS = (
  "--config.evaluation.episodes=5",
  "--config.limits.target_return=inf",
  "--config.snapshot.period_s=5.0",
)


class MachineRun:
  """One run, started on a cluster's head."""

  def __init__(self, cluster, *flags: str):
    """Starts it.

    Args:
      cluster: a `conftest.Cluster` with two machines or more.
      flags: of launch.train, beside those that find cluster and folder; by
        default those of a run that goes on for ever.
    """
    self.cluster = cluster
    self.path = cluster.network.shared / "runs" / "a-run"
    self._said = cluster.network.folder / "said"
    new = not any(flag.startswith("--resume") for flag in flags)
    self.process = cluster.head.start(
      [sys.executable, "-m", "slipway.launch.train", "--launch=ray"]
      + [f"--ray_address={cluster.address}"]
      + [f"--run_dir={self.path.parent}", "--name=a-run"] * new
      + [*(flags or ENDLESS)],
      self._said,
      cluster.environment,
    )

  @property
  def said(self) -> str:
    """By all lives of the run, on the terminal."""
    return self._said.read_text()

  @property
  def supervisor_log(self) -> str:
    """The event log of the cluster supervisor."""
    return self.log("cluster")

  @property
  def summary(self) -> dict:
    return json.loads((self.path / "summary.json").read_text())

  def status(self) -> dict:
    """Polled on the head by `slipway control`."""
    command = [
      sys.executable,
      "-m",
      "slipway.launch.control",
      f"--run={self.path}",
    ]
    said = self.cluster.head.run([*command, "status", "--json"]).stdout
    return json.loads(said)

  def host_of(self, part: str) -> hosts.Host:
    """The host that has a part of the run."""
    address = self.status()["machines"][part]["host"]
    (host,) = (h for h in self.cluster.hosts if h.address == address)
    return host

  def kill(self, part: str, node: str) -> None:
    """Kills a node; returns when another process has taken its place."""
    before = self._pid(part, node)
    self.host_of(part).run(["kill", "-9", str(before)])
    wait_until(lambda: self._pid(part, node) != before)

  def wait_for_steps(self, timeout_s: float = 90.0) -> dict:
    """Waits until workers and trainer have made more steps."""
    before = self.status()

    def moved():
      status = self.status()
      steps = ("env_steps", "trainer_steps")
      return all(status[s] > before[s] + 50 for s in steps) and status

    return wait_until(moved, timeout_s)

  def wait_for_workers(self, up: int, wanted: int) -> dict:
    """Waits until so many workers of so many are up."""

    def are_up():
      status = self.status()
      return (
        status["nodes"]["worker"] == {"up": up, "expected": wanted} and status
      )

    return wait_until(are_up, 120.0)

  def stop(self) -> int:
    """Stops it by a signal; returns its exit status."""
    for process in self.cluster.head.processes("slipway.launch.train"):
      process.send_signal(signal.SIGTERM)
    return self.process.wait(60)

  def _pid(self, part: str, node: str) -> int:
    """Of a node's newest process, as its own host counts them."""
    log = "runner" if part == "home" else f"runner-{part.replace('/', '-')}"
    return int(re.findall(rf"{node} is process (\d+)", self.log(log))[-1])

  def log(self, name: str) -> str:
    """What a log of the run has so far."""
    path = self.path / "logs" / name
    return path.read_text() if path.exists() else ""


def left_on(host: hosts.Host) -> list[str]:
  """The command lines of a run's processes on a host."""
  lines = map(_command_line, host.processes())
  return [line for line in lines if _OURS.search(line)]


def wait_until(condition, timeout_s: float = 60.0):
  """Returns the first value of `condition` that is true."""
  deadline_s = time.monotonic() + timeout_s
  while True:
    try:
      value = why = condition()
    except Exception as error:  # it may not be up
      value, why = None, error
    if value:
      return value
    assert time.monotonic() < deadline_s, why
    time.sleep(0.2)


def _command_line(process: psutil.Process) -> str:
  try:
    return " ".join(process.cmdline()).strip()
  except psutil.Error:
    return ""  # it has just ended


def refused(host, address: str, **env: str) -> str:
  """The line with which a run on a host's cluster is refused.

  Args:
    host: to start it on.
    address: of Ray's head.
    env: variables beside those of `Host.run`.
  """
  run = host.run(
    [sys.executable, "-m", "slipway.launch.train", "--launch=ray"]
    + [f"--ray_address={address}", "--run_dir=/tmp/runs"],
    env=env,
    check=False,
  )
  assert run.returncode == 2
  (line,) = run.stderr.splitlines()
  return line
