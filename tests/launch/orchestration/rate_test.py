"""Rate: growth over the last seconds."""

import math

import pytest

from slipway.launch.orchestration import rate as rate_lib

# (seconds, count) in their order, and the rate after the last
RATES = [
  ([(0.0, 100)], 0.0),
  ([(0.0, 0), (2.0, 50)], 25.0),
  ([(0.0, 0), (0.0, 50)], 0.0),
  ([(0.0, 0), (4.0, 0), (5.0, 10)], 2.0),
  # Older than the window of 5 s: forgotten.
  ([(0.0, 0), (10.0, 1000), (12.0, 1030)], 15.0),
  ([(0.0, 0), (6.0, 1000)], 0.0),
  # A node that was restarted counts from 0.
  ([(0.0, 900), (1.0, 1000), (2.0, 30)], 0.0),
  ([(0.0, 900), (1.0, 1000), (2.0, 30), (4.0, 50)], 10.0),
]


@pytest.mark.parametrize(("samples", "rate"), RATES)
def test_rates(samples, rate):
  measured = rate_lib.Rate()
  for now_s, count in samples:
    value = measured.add(count, now_s)
  assert math.isclose(value, rate)
