"""The benchmark `trainer`, at a small scale: one table, alternating kinds."""

import dataclasses

import pytest

from benchmarks import trainer


@pytest.fixture(scope="module")
def measured():
  case = dataclasses.replace(trainer.CASES[0], items=400, updates=20)
  return trainer.measure(runs=2, cases=(case,))


@pytest.mark.benchmarks
def test_kinds_alternate_and_do_the_same_updates(measured):
  assert [(row["repetition"], row["kind"]) for row in measured.raw] == [
    (0, "fixed"),
    (0, "replay"),
    (1, "fixed"),
    (1, "replay"),
  ]
  assert {row["updates"] for row in measured.raw} == {20}
  for row in measured.raw:
    assert row["updates_per_s"] == pytest.approx(20 / row["wall_s"])


@pytest.mark.benchmarks
def test_ratio_is_the_median_of_ratios(measured):
  speed = [row["updates_per_s"] for row in measured.raw]
  (row,) = measured.medians
  assert row["ratio"] == pytest.approx(
    (speed[1] / speed[0] + speed[3] / speed[2]) / 2
  )
  assert len(measured.goals) == 1  # the case has a goal
