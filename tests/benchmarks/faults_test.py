"""The benchmarks `recovery` and `blocked`, at a small scale, with servers."""

import pytest

from benchmarks import blocked, recovery

pytestmark = [pytest.mark.benchmarks, pytest.mark.timeout(180)]


def test_all_writers_recover_and_losses_are_counted():
  report = recovery.measure(1, writers=2, down_s=0.3, up_s=1.0)
  assert [row["case"] for row in report.raw] == list(recovery.CASES)
  for row in report.raw:
    assert row["median_s"] <= row["last_s"]
    # A writer loses at most its items in flight, which are limited.
    assert 0 <= row["lost_items"] <= 2 * 40
  assert len(report.medians) == len(report.goals) == len(recovery.CASES)
  assert all("killed: every writer writes again" in g for g in report.goals)


def test_memory_is_measured_every_second():
  report = blocked.measure(seconds=3.0, writers=2, settle_s=1.0)
  times = [row["at_s"] for row in report.raw]
  assert len(times) >= 2
  assert times == sorted(times)
  assert all(row["rss_mb"] > 10 for row in report.raw)
  (medians,) = report.medians
  assert medians["most, MB"] == max(row["rss_mb"] for row in report.raw)
