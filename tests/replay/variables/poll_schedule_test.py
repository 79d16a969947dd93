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


def poll_until(clock, schedule, version_at_s):
  """Polls until a version is found; returns the number of polls."""
  polls = 0
  while clock.now_s < version_at_s:
    clock.now_s += schedule.period_s
    polls += 1
  schedule.record_version()
  return polls


def test_few_polls_find_versions_of_regular_rounds(clock):
  schedule = poll_schedule.PollSchedule(0.001)
  at_s = clock.now_s
  for number in range(10):
    at_s += 0.03
    polls = poll_until(clock, schedule, at_s)
    assert polls <= (31 if number == 0 else 12)
    assert clock.now_s - at_s < 0.0011


def test_a_version_is_late_by_at_most_50_ms_where_rounds_become_shorter(clock):
  schedule = poll_schedule.PollSchedule(0.001)
  poll_until(clock, schedule, clock.now_s + 2.0)
  delays_s = []
  for _ in range(20):
    at_s = clock.now_s + 0.01
    poll_until(clock, schedule, at_s)
    delays_s.append(clock.now_s - at_s)
  assert max(delays_s) <= 0.051
  assert delays_s[-1] <= 0.0011
