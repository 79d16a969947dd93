"""Tests of a sweep's report on its scores."""

import csv
import io

import pytest
import rich.console

from slipway.launch.sweeps import report, scoring
from tests.launch.sweeps import given


@pytest.mark.parametrize(
  ("last_is_done", "counts", "title"),
  [
    (False, ("2", "3", "4", "6"), "games so far"),
    (True, ("3", "3", "6", "6"), "all games"),
  ],
)
def test_a_measure_over_some_of_the_games_is_marked(
  tmp_path, last_is_done, counts, title
):
  vary = ["environment.game=Pong,Breakout,Seaquest"]
  sweep = given.make_sweep(tmp_path, vary, "--seeds=2")
  runs = [
    given.make_runs(index, 1.0, 2.0, is_done=is_done, path=tmp_path)
    for index, is_done in enumerate((True, True, last_is_done))
  ]
  for group in runs:
    for score in group:
      given.write_curves(score.run, [10.0, 10.0])
  scores = scoring.score_all(sweep.settings, runs, 475.0)
  report.write(sweep, scores)
  with open(tmp_path / "games.csv", newline="") as file:
    (row,) = csv.DictReader(file)
  names = ("games", "planned_games", "done", "planned")
  assert tuple(row[name] for name in names) == counts
  console = rich.console.Console(width=100, record=True, file=io.StringIO())
  console.print(report.make_games_table(scores.games))
  text = console.export_text()
  assert title in text
  for some, planned in (counts[:2], counts[2:]):
    assert f"{some}/{planned}" in text
