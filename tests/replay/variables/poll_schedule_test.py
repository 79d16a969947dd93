"""Tests of PollSchedule: the period grows with the age of the last version."""

import types

import pytest

from slipway.replay.variables import poll_schedule


@pytest.fixture
def clock(monkeypatch):
  """Returns the schedule's simulated clock, whose `now_s` a test sets."""
  clock = types.SimpleNamespace(now_s=100.0)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(poll_schedule, "time", clock)
  return clock


# shortest period; seconds since the last version, and the period then
PERIODS = [
  (0.001, [(0.0, 0.001), (0.1, 0.002), (1.0, 0.02), (2.5, 0.05), (60.0, 0.05)]),
  (0.5, [(0.0, 0.5), (0.1, 0.5), (60.0, 0.5)]),
]  # fmt: skip


@pytest.mark.parametrize(("shortest_s", "periods"), PERIODS)
def test_the_period_grows_with_the_age_of_the_first_version(
  clock, shortest_s, periods
):
  schedule = poll_schedule.PollSchedule(shortest_s)
  began_s = clock.now_s
  for age_s, period_s in periods:
    clock.now_s = began_s + age_s
    assert schedule.period_s == pytest.approx(period_s)
