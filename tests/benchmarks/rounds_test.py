"""The benchmark `rounds`, at a small scale."""

import pytest

from benchmarks import rounds

pytestmark = pytest.mark.benchmarks


def test_both_modes_and_the_actor_are_measured():
  measured = rounds.measure(runs=1, seconds=2.0, calls=100)
  assert len(measured.raw) == len(rounds.PRESETS)
  for row in measured.raw:
    cost_ms = row["round_ms"] - row["work_ms"]
    assert row["work_ms"] > 0
    assert cost_ms == pytest.approx(row["hand_over_ms"])
    assert row["share"] < 1
    assert row["acting_us"] > 0
  assert len(measured.goals) == 3 * len(rounds.PRESETS)
