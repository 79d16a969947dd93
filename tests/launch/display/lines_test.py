"""Tests of plain lines, and of the format of their numbers."""

import math

import pytest

from slipway.launch.display import formatting, lines
from tests.launch.display import given


@pytest.mark.parametrize(
  ("write", "value", "text"),
  [
    (formatting.count, 1_234_567.0, "1,234,567"),
    (formatting.count, None, "-"),
    (formatting.decimal, -1234.5, "-1,234.50"),
    (formatting.decimal, math.nan, "-"),
    (formatting.rate, 0, "0"),
    (formatting.rate, 0.1234, "0.123"),
    (formatting.rate, 99.96, "100"),
    (formatting.rate, 3217.7, "3,220"),
    (formatting.rate, 123_456, "123,000"),
    (formatting.duration, 3725.9, "1:02:05"),
    (formatting.duration, math.inf, "-"),
    (formatting.estimate, 0, "0 s"),
    (formatting.estimate, 12, "15 s"),
    (formatting.estimate, 100, "2 min"),
    (formatting.estimate, 3725, "1 h 02 min"),
    (formatting.estimate, 400_000, "111 h 07 min"),
  ],
)
def test_numbers(write, value, text):
  assert write(value) == text


def test_a_plain_line_shows_everything():
  assert lines.progress_line(given.STATUS) == (
    "0:01:23 apex-cartpole-3: environment 123,456 steps; trainer 15,432 steps; "
    "items 3,190 confirmed/s (17 lost); replay 42,310 of 50,000 items (85 % "
    "full); snapshot 12 s old (3 written); speed 3,220 steps/s (4,000 target); "
    "learning 401 updates/s; sampling 8.02 samples/insert (8.00 target); "
    "variables 0.21 s old on average (771 version); training 188.20 mean "
    "return; evaluation 312.35 mean return (301.50 last 10); best 340.05 of 17 "
    "so far (475.00 target); 5 min to 1,000,000 environment steps; "
    "nodes up: worker 3/4; "
    "restarts: 2 of nodes, 5 of streams, 1 of the run; "
    "waiting: workers wait for the trainer"
  )
  assert lines.evaluation_line(given.STATUS) == (
    "0:01:23 apex-cartpole-3: evaluation 17: mean return 312.35 over 20 "
    "episodes (mean of last 10 301.50); best 340.05 of 17 so far (475.00 "
    "target) after 123,456 environment steps"
  )


def test_a_plain_line_omits_zero_counts():
  status = given.changed(
    given.NOTHING_LOST,
    reconnects=0,
    restarts=0,
    resumes=0,
    snapshots={"written": 0},
  )
  line = lines.progress_line(status)
  for word in ("lost", "reconnects", "restarts", "resumes", "snapshot"):
    assert word not in line
