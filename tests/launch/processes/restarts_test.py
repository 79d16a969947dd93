"""Restarts: growing delays, and a budget that comes back with time."""

import pytest

from slipway.launch.processes import restarts


def test_delays_grow_until_the_budget_is_used_up():
  node = restarts.Restarts(budget=4, period_s=100.0)
  delays = [node.delay_s(now_s) for now_s in (0.0, 1.0, 2.0, 3.0)]
  assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8])
  assert node.delay_s(4.0) is None


def test_a_failure_is_forgiven_after_the_period():
  node = restarts.Restarts(budget=2, period_s=100.0)
  assert node.delay_s(0.0) == pytest.approx(0.1)
  assert node.delay_s(50.0) == pytest.approx(0.2)
  assert node.delay_s(100.0) is None
  assert node.delay_s(100.5) == pytest.approx(0.2)  # The first is forgotten.
  assert node.delay_s(101.0) is None
  assert not node.all_forgiven(200.0)
  assert node.all_forgiven(1_000.0)
  assert node.delay_s(1_000.0) == pytest.approx(0.1)


def test_no_delay_is_longer_than_ten_seconds():
  node = restarts.Restarts(budget=1_100, period_s=1e9)
  delays = [node.delay_s(float(i)) for i in range(1_100)]
  assert max(delays) == 10.0
  assert delays == sorted(delays)


def test_without_a_budget_nothing_is_restarted():
  node = restarts.Restarts(budget=0, period_s=100.0)
  assert node.delay_s(0.0) is None
