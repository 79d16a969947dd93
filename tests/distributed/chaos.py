"""Chaos: kills nodes of a run, then checks the run's results and logs."""

import collections
import random
import re
import subprocess
import sys
import time

import psutil

# The restart budget is large, since chance may kill one node many times. Its
# short period keeps the delays of restarts short. Other tests cover budgets
# that are used up. The workers run at full speed.
FLAGS = (
  "--config.restarts.budget=100",
  "--config.restarts.period_s=20",
  "--config.rates.environment_steps_per_s=0",
  "--config.limits.target_evaluations=1",
)
NODES = ("trainer/0", "proxy/0", "evaluator/0")

_END_S = 60.0  # seconds within which a killed process must have ended


class Chaos:
  """Kills nodes of a run, and counts the kills per node."""

  def __init__(self, run, seed, nodes, pause_s):
    """Waits until the run has begun to learn.

    Args:
      run: the `conftest.Run` whose nodes are killed.
      seed: seed of the order and the times of the kills.
      nodes: names of the nodes to kill, such as 'worker/0'.
      pause_s: minimum and maximum seconds between two kills.
    """
    self._run, self._rng = run, random.Random(seed)
    self._nodes, self._pause_s = nodes, pause_s
    self.kills = collections.Counter()
    run.wait_until_learning()

  def round(self):
    """Kills each node once, in a random order."""
    for node in self._rng.sample(self._nodes, len(self._nodes)):
      self.kill(node)

  def kill(self, node):
    """Kills a node after a random pause."""
    time.sleep(self._rng.uniform(*self._pause_s))
    process = None

    def find():
      nonlocal process
      process = self._run.process(node)
      return process

    self._run.wait_until(find)
    process.kill()
    _, left = psutil.wait_procs([process], _END_S)
    assert not left
    self.kills[node] += 1

  def end(self, target, within_s=120.0):
    """Waits until the run reaches a return without kills; checks its results.

    Args:
      target: the mean return that ends the run.
      within_s: seconds within which the run must have ended.
    """
    self._run.wait_until(lambda: _set_target(self._run, target) == 0)
    status = self._run.wait(within_s)
    assert status == 0, self._run.stdout + self._run.stderr
    assert self._run.stderr == ""
    self._run.check_nothing_left()
    self._check_summary(target)
    self._check_log()
    _check_curves(self._run)

  def _check_summary(self, target):
    summary = self._run.summary
    assert summary["stopped_because"] == "target_return"
    # The last evaluation may be lower: one that was in progress may follow the
    # evaluation that reached the target.
    assert max(row["eval_return"] for row in self._run.evaluations) >= target
    restarts = summary["node_restarts"]
    assert summary["restarts"] == sum(restarts.values())
    assert set(restarts) <= set(self.kills)
    with_state = [node for node in self.kills if node[0] in "tr"]
    assert summary["resumes"] == sum(self.kills[node] for node in with_state)

  def _check_log(self):
    died = collections.Counter(
      re.findall(r"node (\S+) was ended by SIGKILL", self._run.log("runner"))
    )
    assert died == self.kills
    # Clients and servers of a killed node must not fail themselves.
    for log in (self._run.path / "logs").glob("*/*"):
      assert "This node failed" not in log.read_text(), log


def _check_curves(run):
  """Asserts that time and steps of the evaluations never decrease."""
  assert run.evaluations
  for name in ("wall_s", "env_steps"):
    values = [row[name] for row in run.evaluations]
    assert values == sorted(values), name


def _set_target(run, target):
  """Sets the return that ends the run.

  Returns:
    The command's exit status, which isn't 0 if the launcher does not reply.
  """
  return subprocess.run(
    [
      *(
        sys.executable,
        "-m",
        "slipway.launch.commands.cli",
        "control",
        f"--run={run.path}",
      ),
      *("set", "limits.target_return", str(target)),
    ],
    capture_output=True,
  ).returncode
