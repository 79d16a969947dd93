"""Tests of the growth rates of counts over the last seconds."""

import pytest

from slipway.launch.control import measured_rates

# samples (seconds, count) in the order of time, rate after the last sample
RATES = [
  ([(0.0, 100)], 0.0),
  ([(0.0, 0), (2.0, 50)], 25.0),
  ([(0.0, 0), (0.0, 50)], 0.0),
  ([(0.0, 0), (4.0, 0), (5.0, 10)], 2.0),
  # Samples that are older than 5 s are dropped.
  ([(0.0, 0), (10.0, 1000), (12.0, 1030)], 15.0),
  ([(0.0, 0), (6.0, 1000)], 0.0),
  # A restarted node counts from 0.
  ([(0.0, 900), (1.0, 1000), (2.0, 30)], 0.0),
  ([(0.0, 900), (1.0, 1000), (2.0, 30), (4.0, 50)], 10.0),
]


@pytest.mark.parametrize(("samples", "rate"), RATES)
def test_rates(samples, rate):
  rates = measured_rates.MeasuredRates()
  for now_s, count in samples:
    measured = rates.add({"steps": count, "same": 7}, now_s)
  assert measured == {"steps": pytest.approx(rate), "same": 0.0}
