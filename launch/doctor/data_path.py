"""Data path: measures each part of the data path on this machine, by a run."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator

from slipway.configs import catalog
from slipway.environments import random_play
from slipway.launch.doctor import machine
from slipway.launch.runs import run_folder, run_status

_UPDATES = 3_000  # of the run, for which its rates are measured
_LONGEST_S = 90.0
# Per second, what two Xeon cores of 2.1 GHz reach, and the part of it below
# which a machine is slow.
_HEALTHY = {
  "environment": 40_000.0,
  "writer": 4_000.0,
  "updates": 400.0,
  "variables": 5.0,
}
_SLOW = 0.1


def run() -> Iterator[machine.Line]:
  """Yields a line per part of the data path; takes about 20 s."""
  config = catalog.algorithms()["dqn"].get_config("cartpole")
  step_s = random_play.play(config.environment).step_s
  yield _make_line("environment", 1 / step_s, "environment steps")
  with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
      [
        *(sys.executable, "-m", "slipway.launch.commands.train"),
        *("--config=dqn:cartpole", "--mode=async", "--name=test"),
        f"--run_dir={folder}",
        f"--config.limits.trainer_steps={_UPDATES}",
        f"--config.limits.wall_clock_s={_LONGEST_S}",
        "--config.limits.target_return=inf",
        "--config.replay.samples_per_insert=0",  # no part waits for another
      ],
      capture_output=True,
      text=True,
      timeout=2 * _LONGEST_S,
      check=False,
    )
    if done.returncode:
      error = done.stderr.strip().rpartition("\n")[2]
      yield machine.Line("run", machine.PROBLEM, f"a run fails: {error}")
      return
    path = run_folder.RunFolder(f"{folder}/test")
    status = run_status.read_summary(path)
  start_up_s = status.start_up_s or 0.0
  passed_s = status.wall_s - start_up_s
  yield machine.Line("start", machine.OK, f"{start_up_s:.1f} s to an update")
  for name, count, unit in (
    ("writer", status.items_confirmed, "items through proxy and Reverb"),
    ("updates", status.trainer_steps, "updates with batches from Reverb"),
    ("variables", status.variable_loads, "versions to a worker"),
  ):
    yield _make_line(name, count / passed_s, unit)


def _make_line(name: str, rate: float, unit: str) -> machine.Line:
  healthy = _HEALTHY[name]
  text = f"{rate:,.0f} {unit} per second; two Xeon cores reach {healthy:,.0f}"
  if rate >= _SLOW * healthy:
    return machine.Line(name, machine.OK, text)
  advice = "look for other programs, a power-saving governor, or a quota"
  return machine.Line(name, machine.WARNING, f"{text}: {advice}")
