"""Tests of RestartBudget: growing delays, and a budget that recovers."""

import pytest

from slipway.launch.processes import restart_budget


def test_delays_grow_until_the_budget_is_used_up():
  node = restart_budget.RestartBudget(budget=4, period_s=100.0)
  delays = [node.count_failure(now_s) for now_s in (0.0, 1.0, 2.0, 3.0)]
  assert delays == pytest.approx([0.1, 0.2, 0.4, 0.8])
  assert node.count_failure(4.0) is None


def test_a_failure_is_forgiven_after_the_period():
  node = restart_budget.RestartBudget(budget=2, period_s=100.0)
  assert node.count_failure(0.0) == pytest.approx(0.1)
  assert node.count_failure(50.0) == pytest.approx(0.2)
  assert node.count_failure(100.0) is None
  # The first failure no longer counts.
  assert node.count_failure(100.5) == pytest.approx(0.2)
  assert node.count_failure(101.0) is None
  assert not node.is_unused(200.0)
  assert node.is_unused(1_000.0)
  assert node.count_failure(1_000.0) == pytest.approx(0.1)


def test_no_delay_is_longer_than_ten_seconds():
  node = restart_budget.RestartBudget(budget=1_100, period_s=1e9)
  delays = [node.count_failure(float(i)) for i in range(1_100)]
  assert max(delays) == 10.0
  assert delays == sorted(delays)


def test_without_a_budget_nothing_is_restarted():
  node = restart_budget.RestartBudget(budget=0, period_s=100.0)
  assert node.count_failure(0.0) is None
