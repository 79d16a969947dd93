"""Tests of the status text: the format of numbers, and plain lines."""

import math

import pytest

from slipway.launch.display import status_text
from tests.launch.display import given


@pytest.mark.parametrize(
  ("write", "value", "text"),
  [
    (status_text.format_count, 1_234_567.0, "1,234,567"),
    (status_text.format_count, None, "-"),
    (status_text.format_decimal, -1234.5, "-1,234.50"),
    (status_text.format_decimal, math.nan, "-"),
    (status_text.format_rate, 0, "0"),
    (status_text.format_rate, 0.1234, "0.123"),
    (status_text.format_rate, 99.96, "100"),
    (status_text.format_rate, 3217.7, "3,220"),
    (status_text.format_rate, 123_456, "123,000"),
    (status_text.format_duration, 3725.9, "1:02:05"),
    (status_text.format_duration, math.inf, "-"),
    (status_text.format_estimate, 0, "0 s"),
    (status_text.format_estimate, 12, "15 s"),
    (status_text.format_estimate, 100, "2 min"),
    (status_text.format_estimate, 3725, "1 h 02 min"),
    (status_text.format_estimate, 400_000, "111 h 07 min"),
  ],
)
def test_numbers(write, value, text):
  assert write(value) == text


def test_a_plain_line_shows_everything():
  assert status_text.progress_line(given.STATUS) == (
    "0:01:23 apex-cartpole-3: 123,456 environment steps (3,220/s, "
    "4,000 target); "
    "15,432 trainer steps (401/s); replay 42,310 of 50,000 items, 8.02 samples "
    "per insert (8.00 target); variables 0.21 s old, 0.0493 loads per trainer "
    "step (0.05 target); training return 188.20; mean return 312.35 "
    "(mean of last 10 301.50, best 340.05, 475.00 target); "
    "snapshot 12 s old, 3 written; "
    "5 min to 1,000,000 environment steps; "
    "29 min to 0:30:00 of wall-clock time; worker 3 of 4 up; "
    "17 items lost; "
    "5 reconnects; 2 restarts; 1 resumes; "
    "waiting: workers wait for the trainer"
  )
  assert status_text.evaluation_line(given.STATUS) == (
    "0:01:23 apex-cartpole-3: evaluation 17: mean return 312.35 over 20 "
    "episodes (mean of last 10 301.50, best 340.05, 475.00 target) after "
    "123,456 environment steps"
  )


def test_a_plain_line_omits_zero_counts():
  status = given.changed(
    given.NOTHING_LOST,
    reconnects=0,
    restarts=0,
    resumes=0,
    snapshots={"written": 0},
  )
  line = status_text.progress_line(status)
  for word in ("lost", "reconnects", "restarts", "resumes", "snapshot"):
    assert word not in line
