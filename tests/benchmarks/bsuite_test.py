"""The Behaviour Suite at a small scale: runs are recorded, scored and drawn."""

import csv
import math

import pytest

from benchmarks import machine
from benchmarks.bsuite import __main__ as bsuite

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(300)]


def measure(out):
  return bsuite.measure(
    ("dqn",),
    settings=2,
    at_once=2,
    out=out,
    experiments=("bandit", "catch"),
    episodes=300,
  )


def measure_bandit(out, algorithm="dqn"):
  return bsuite.measure(
    (algorithm,),
    settings=1,
    at_once=1,
    out=out,
    experiments=("bandit",),
    episodes=50,
  )


def test_runs_are_recorded_scored_and_drawn(tmp_path, capfd, monkeypatch):
  monkeypatch.setattr(machine, "commit", lambda: "abcdef")
  found = measure(tmp_path)
  assert [row["experiment"] for row in found.raw] == ["bandit", "catch"]
  assert [row["settings"] for row in found.raw] == [2, 2]
  # A random agent scores 0. DQN finds the best of 11 arms within 300 episodes.
  assert found.raw[0]["score"] > 0.1
  (row,) = found.medians
  assert row["basic"] == pytest.approx(
    (found.raw[0]["score"] + found.raw[1]["score"]) / 2
  )
  assert math.isnan(row["memory"])
  assert (tmp_path / "bsuite.png").stat().st_size > 10_000
  with open(tmp_path / "bsuite" / "dqn.csv", newline="") as file:
    rows = list(csv.DictReader(file))
  assert list(dict.fromkeys(row["bsuite_id"] for row in rows)) == [
    *("bandit/0", "bandit/19"),
    *("catch/0", "catch/19"),
  ]
  assert {int(row["episode"]) for row in rows} >= {1, 100, 300}
  assert {row["commit"] for row in rows} == {"abcdef"}
  assert "bsuite: dqn, catch/0" in capfd.readouterr().err

  again = measure(tmp_path)
  assert "bsuite: dqn" not in capfd.readouterr().err  # nothing is run again
  assert again.raw == found.raw


@pytest.mark.parametrize("now", ["fedcba", "abcdef" + machine.CHANGED])
def test_rows_of_other_code_are_measured_again(
  tmp_path, capfd, monkeypatch, now
):
  for commit in ("abcdef", now):
    monkeypatch.setattr(machine, "commit", lambda commit=commit: commit)
    measure_bandit(tmp_path)
    assert "bsuite: dqn, bandit/0" in capfd.readouterr().err
  with open(tmp_path / "bsuite" / "dqn.csv", newline="") as file:
    assert {row["commit"] for row in csv.DictReader(file)} == {now}


@pytest.mark.parametrize("algorithm", bsuite.ALGORITHMS)
def test_each_algorithm_runs_with_its_values(tmp_path, algorithm):
  found = measure_bandit(tmp_path, algorithm)
  assert [row["algorithm"] for row in found.raw] == [algorithm]


def test_every_experiment_is_scored(tmp_path):
  measure_bandit(tmp_path / "installed")  # installs the suite
  from benchmarks.bsuite import environment, scores

  recorded = scores.Recorded(tmp_path / "random.csv")
  ids = scores.choose_ids(scores.EXPERIMENTS, settings=1)
  for bsuite_id in ids:
    env = environment.RecordedEnvironment(bsuite_id, str(tmp_path))
    env.action_space.seed(1)
    # The analysis of deep_sea leaves out the first hundred short episodes.
    for _ in range(101 if "deep_sea" in bsuite_id else 2):
      env.reset()
      ended = False
      while not ended:
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        ended = terminated or truncated
    env.close()
    recorded.add(scores.read_run(tmp_path, bsuite_id))
  found = recorded.score(ids)
  assert [each.experiment for each in found] == list(scores.EXPERIMENTS)
  assert all(0 <= each.score <= 1 for each in found)
