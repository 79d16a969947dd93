"""Tests of PollSchedule: the period grows with the age of the last version."""

import time

from slipway.replay.variables import poll_schedule


def test_the_period_grows_with_the_age_of_the_last_version():
  schedule = poll_schedule.PollSchedule(0.001)
  time.sleep(0.2)
  aged_s = schedule.period_s
  assert aged_s >= 0.02 * 0.2
  time.sleep(0.1)
  assert schedule.period_s > aged_s
  time.sleep(2.5)
  longest_s = schedule.period_s
  assert longest_s <= 0.05
  schedule.record_version()
  assert schedule.period_s < aged_s


def test_the_period_is_never_below_the_shortest():
  schedule = poll_schedule.PollSchedule(0.5)
  assert schedule.period_s == 0.5
  time.sleep(0.1)
  assert schedule.period_s == 0.5
