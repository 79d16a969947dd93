"""Chaos: kills nodes of a run, and checks what the run leaves."""

import collections
import random
import re
import subprocess
import sys
import time

import psutil

# A node may die as often as chance wills, and is soon started again: a budget
# of a day has its own test. The workers run at full speed.
FLAGS = (
  "--config.restarts.budget=100",
  "--config.restarts.period_s=20",
  "--config.rates.environment_steps_per_s=0",
  "--config.limits.target_evaluations=1",
)
NODES = ("control/0", "trainer/0", "proxy/0", "evaluator/0")

_END_S = 60.0  # within which a killed process is gone


class Chaos:
  """Kills nodes of a run, and keeps count."""

  def __init__(self, run, seed, nodes, pause_s):
    """Waits until the run learns.

    Args:
      run: of `conftest`.
      seed: of the order and the times.
      nodes: that are killed: 'worker/0'.
      pause_s: the least and the most seconds between two kills.
    """
    self._run, self._chance = run, random.Random(seed)
    self._nodes, self._pause_s = nodes, pause_s
    self.kills = collections.Counter()
    run.wait_until_learning()

  def round(self):
    """Kills each node once, in a random order."""
    for node in self._chance.sample(self._nodes, len(self._nodes)):
      self.kill(node)

  def kill(self, node):
    """Kills a node after a random pause."""
    time.sleep(self._chance.uniform(*self._pause_s))
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
    """Lets the run reach a return in peace; checks what it leaves."""
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
    # An evaluation that was under way may have followed the one that did it.
    assert max(row["eval_return"] for row in self._run.evaluations) >= target
    restarts = summary["node_restarts"]
    assert summary["restarts"] == sum(restarts.values())
    assert set(restarts) == set(self.kills)
    assert summary["items_lost"] > 0
    # Of each nothing is, where a snapshot was made just before.
    assert summary["env_steps_lost"] + summary["trainer_steps_lost"] > 0

  def _check_log(self):
    died = collections.Counter(
      re.findall(r"node (\S+) was ended by SIGKILL", self._run.log("runner"))
    )
    assert died == self.kills
    # Whoever asks or serves a node that was killed goes on.
    for log in (self._run.path / "logs").glob("*/*"):
      assert "This node failed" not in log.read_text(), log


def _check_curves(run):
  """Asserts that evaluations follow one another, whoever died in between."""
  assert run.evaluations
  for name in ("wall_s", "env_steps"):
    values = [row[name] for row in run.evaluations]
    assert values == sorted(values), name


def _set_target(run, target):
  """Sets the return that ends the run; fails while no control node is up."""
  return subprocess.run(
    [
      *(sys.executable, "-m", "slipway.launch.control", f"--run={run.path}"),
      *("set", "limits.target_return", str(target)),
    ],
    capture_output=True,
  ).returncode
