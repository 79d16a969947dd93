"""Tests of the format of numbers in the status text."""

import math

import pytest

from slipway.launch.display import status_text


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
