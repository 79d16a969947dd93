"""Learning curves: what is kept is read, tabled and drawn."""

import csv

import numpy as np
import pytest

from benchmarks import curves
from slipway.launch.runs import statistics

CONFIG = "dqn:cartpole --config.limits.environment_steps=9000 --config.x=1: 2"


def keep(path, slope, seeds=3):
  """Runs whose return grows by `slope` each evaluation, one more a seed."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "w", newline="") as file:
    file.write(f"# commit: abc\n# runs at once: 2\n# config: {CONFIG}\n")
    writer = csv.writer(file)
    writer.writerow(["seed", "wall_s", "env_steps", "eval_return"])
    for seed in range(1, seeds + 1):
      for at in range(10):
        writer.writerow([seed, 1.0 + at, 1_000 * at, slope * at + seed])


def test_a_task_is_drawn_from_what_is_kept(tmp_path, capfd):
  keep(tmp_path / "cartpole" / "dqn.csv", 2.0)
  keep(tmp_path / "cartpole" / "rainbow.csv", 5.0, seeds=1)
  assert curves.main(["--task=cartpole", f"--out={tmp_path}"]) == 0
  page = (tmp_path / "cartpole.md").read_text()
  assert page in capfd.readouterr().out
  # Evaluations 5 to 9 of seeds 1 to 3: 14 + 2, and means of three of 15, 16
  # and 17; all three are the lowest once in 27 draws.
  assert (
    "| dqn | 3 | 9,000 | 16.0 (15.0 to 17.0) | 20.0 | 10 | 2 | abc |" in page
  )
  assert (
    "| rainbow | 1 | 9,000 | 36.0 (36.0 to 36.0) | 46.0 | 10 | 2 | abc |"
    in page
  )
  assert (tmp_path / "cartpole.png").stat().st_size > 10_000


def test_a_task_without_curves_is_one_line(tmp_path, capfd):
  assert curves.main(["--task=pendulum", f"--out={tmp_path}"]) == 2
  printed = capfd.readouterr().err
  assert printed.startswith("curves: ") and printed.count("\n") == 1
  assert "no saved curves" in printed


def test_a_file_is_a_curve_a_seed(tmp_path):
  keep(tmp_path / "dqn.csv", 1.0)
  made_with, found = curves.read(tmp_path / "dqn.csv")
  assert made_with == {
    "commit": "abc",
    "runs at once": "2",
    "config": CONFIG,
  }
  assert len(found) == 3
  np.testing.assert_array_equal(found[2].eval_return, np.arange(10) + 3.0)
  np.testing.assert_array_equal(found[0].env_steps, 1_000 * np.arange(10))


def test_the_interval_of_a_mean():
  random = np.random.default_rng(1)
  lines = random.normal(5.0, 2.0, size=(400, 2))
  low, high = statistics.interval(statistics.mean, lines)
  # Of so many it is the normal distribution's.
  half = 1.96 * lines.std(axis=0) / 20
  np.testing.assert_allclose(low, lines.mean(axis=0) - half, atol=0.03)
  np.testing.assert_allclose(high, lines.mean(axis=0) + half, atol=0.03)
  for end in statistics.interval(statistics.mean, lines[:1]):
    np.testing.assert_array_equal(end, lines[0])


def test_an_unknown_algorithm_is_refused(capfd):
  with pytest.raises(SystemExit):
    curves.main(["--algorithms=rainbw"])
  assert "'rainbw' is no algorithm" in capfd.readouterr().err
