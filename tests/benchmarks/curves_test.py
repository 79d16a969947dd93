"""Learning curves: saved curves are read, summarised and drawn."""

import csv

import numpy as np
import pytest

from benchmarks.curves import __main__ as curves
from benchmarks.curves import data, holding

CONFIG = "dqn:cartpole --config.x=1: 2"


def write_curves(path, slope, evaluations=(10, 20, 20), advice=""):
  """Writes curves whose return grows by `slope` per evaluation, 1 per seed.

  Args:
    path: path of the file.
    slope: growth of the return from one evaluation to the next.
    evaluations: number of evaluations of each seed.
    advice: value of the line of that name in the head; "": there is none.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "w", newline="") as file:
    file.write("# commit: abc\n# runs at once: 2\n# steps: 9000\n")
    file.write(f"# config: {CONFIG}\n")
    file.write(advice and f"# advice: {advice}\n")
    writer = csv.writer(file)
    writer.writerow(["seed", "wall_s", "env_steps", "eval_return"])
    for seed, count in enumerate(evaluations, 1):
      for at in range(count):
        writer.writerow([seed, 1.0 + at, 1_000 * at, slope * at + seed])


def test_a_task_is_drawn_from_saved_curves(tmp_path, capfd):
  write_curves(tmp_path / "cartpole" / "dqn.csv", 2.0)
  write_curves(
    tmp_path / "cartpole" / "rainbow.csv", 5.0, (10,), "Do this: 1 | And that"
  )
  assert curves.main(["--task=cartpole", f"--out={tmp_path}"]) == 0
  page = (tmp_path / "cartpole.md").read_text()
  assert page in capfd.readouterr().out
  # The last tenth of the steps has evaluation 9 of seed 1, and evaluations 18
  # and 19 of seeds 2 and 3. The interval is that of means of three samples of
  # 19, 39 and 40: the lowest one is sampled three times with probability 1/27.
  assert (
    "| dqn | 3 | 9,000 | 10 to 20 | 32.7 (19.0 to 40.0) | 33.3 | 17 | 2 | abc |"
    in page
  )
  assert "| rainbow | 1 | 9,000 | 10 | 46.0 | 46.0 | 10 | 2 | abc |" in page
  assert "\n- rainbow: Do this: 1\n- rainbow: And that\n" in page
  assert "\n- dqn: " not in page
  assert (tmp_path / "cartpole.png").stat().st_size > 10_000


def test_a_task_without_curves_is_reported_in_one_line(tmp_path, capfd):
  assert curves.main(["--task=pendulum", f"--out={tmp_path}"]) == 2
  printed = capfd.readouterr().err
  assert printed.startswith("curves: ") and printed.count("\n") == 1
  assert "no saved curves" in printed


def test_a_file_has_a_curve_per_seed(tmp_path):
  write_curves(tmp_path / "dqn.csv", 1.0)
  saved = data.read(tmp_path / "dqn.csv")
  found = saved.curves()
  assert saved.head == {
    "commit": "abc",
    "runs at once": "2",
    "steps": "9000",
    "config": CONFIG,
  }
  assert [len(curve.eval_return) for curve in found] == [10, 20, 20]
  np.testing.assert_array_equal(found[2].eval_return, np.arange(20) + 3.0)
  np.testing.assert_array_equal(found[0].env_steps, 1_000 * np.arange(10))


@pytest.mark.parametrize(
  ("arguments", "line"),
  [
    (["--algorithms=rainbw"], "'rainbw' is no algorithm"),
    (
      ["--task=pendulum", "--algorithms=cleanrl_dqn"],
      "stable_baselines3_sac can",
    ),
  ],
)
def test_an_invalid_algorithm_is_rejected(arguments, line, capfd):
  with pytest.raises(SystemExit):
    curves.main(arguments)
  assert line in capfd.readouterr().err


@pytest.mark.parametrize(
  ("returns", "expected"),
  [
    ([1, 2, 3], (None, None, None, None, None)),
    ([1, 9, 9, 1], (1, 2 / 3, 19 / 3, None, None)),
    ([9, 1, 9, 9, 9, 5], (0, 4 / 6, 7, 4, 1 / 2)),
    ([1, 9, 9, 9, 9, 9], (1, 1, 9, 3, 1)),
  ],
)
def test_how_a_run_holds_a_target(returns, expected):
  found = holding.measure(np.arange(len(returns)), np.array(returns), 8)
  assert tuple(found) == pytest.approx(expected)


def test_a_target_is_to_be_held_for_300_000_steps():
  env_steps = np.array([0, 100_000, 250_000, 400_000, 450_000, 500_000])
  returns = np.array([1, 9, 9, 9, 1, 1])
  found = holding.measure(env_steps, returns, 8)
  assert found == (100_000, 1.0, 9.0, 400_000, 1.0)


@pytest.mark.benchmarks
def test_a_benchmark_that_continues_runs_the_missing_seeds(tmp_path):
  command = [
    *("--task=cartpole", "--algorithms=ppo", "--steps=3_000"),
    f"--out={tmp_path}",
  ]
  assert curves.main([*command, "--first_seed=2", "--seeds=1"]) == 0
  first = data.read(tmp_path / "cartpole" / "ppo.csv")
  assert curves.main([*command, "--seeds=2"]) == 0
  both = data.read(tmp_path / "cartpole" / "ppo.csv")
  assert (first.seeds(), both.seeds()) == ([2], [1, 2])
  assert both.head["steps"] == "3000"
  assert [row for row in both.rows if row["seed"] == "2"] == first.rows


@pytest.mark.benchmarks
def test_a_peer_has_a_row_per_evaluation(tmp_path):
  command = [
    *("--task=cartpole", "--seeds=1", "--steps=7_000"),
    f"--out={tmp_path}",
  ]
  assert curves.main([*command, "--algorithms=stable_baselines3_dqn"]) == 0
  saved = data.read(tmp_path / "cartpole" / "stable_baselines3_dqn.csv")
  (curve,) = saved.curves()
  np.testing.assert_array_equal(curve.env_steps, [2_000, 4_000, 6_000])
  assert (np.diff(curve.wall_s) > 0).all()
  assert ((curve.eval_return >= 8) & (curve.eval_return <= 500)).all()
