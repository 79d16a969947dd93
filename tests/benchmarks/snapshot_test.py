"""The benchmark `snapshot`, at a small scale: snapshots during training."""

import pytest

from benchmarks import snapshot


@pytest.mark.benchmarks
def test_each_repetition_writes_a_snapshot():
  report = snapshot.measure(runs=2, items=2_000)
  assert [row["repetition"] for row in report.raw] == [0, 1]
  for row in report.raw:
    assert 0.0 < row["standing_still_s"] <= row["whole_after_s"]
    assert row["updates_per_s_before"] > 0
    assert row["updates_per_s_during"] > 0
    assert row["mb"] > 0.05
  (medians,) = report.medians
  assert medians["transitions"] == "2,000"
  assert len(report.goals) == 1
