"""Tests of statistics against rliable 1.2.0 (50,000 bootstrap samples)."""

import functools

import numpy as np
import pytest

from slipway.launch.runs import statistics

_SCORES = np.array([1.0, 2.0, 3.5, 4.0, 10.0, 0.5, 7.0])
_REFERENCE = np.array([2.0, 3.0, 4.0, 4.5])
_gap = functools.partial(statistics.optimality_gap, target=5.0)


@pytest.mark.parametrize(
  ("measure", "scores", "value", "low", "high"),
  [
    (statistics.interquartile_mean, (_SCORES,), 3.5, 1.4, 6.9),
    (_gap, (_SCORES,), 2.0, 0.7857, 3.2857),
    (
      statistics.probability_of_improvement,
      (_SCORES, _REFERENCE),
      *(0.4643, 0.1429, 0.8036),
    ),
  ],
)
def test_a_measure_and_its_interval(measure, scores, value, low, high):
  assert measure(*scores) == pytest.approx(value, abs=1e-4)
  # Two bootstraps of so few seeds differ by up to this tolerance.
  interval = statistics.interval(measure, *scores)
  assert interval == pytest.approx((low, high), abs=0.15)


def test_seeds_are_sampled_within_each_task():
  tasks = [_SCORES[:5], np.array([0.2, 0.9, 0.4, 1.5, 0.1])]
  measure = statistics.interquartile_mean
  assert measure(np.concatenate(tasks)) == pytest.approx(1.55)
  low, high = statistics.stratified_interval(measure, tasks)
  assert (low, high) == pytest.approx((0.85, 3.1167), abs=0.2)


def test_one_seed_has_no_interval():
  for bound in statistics.interval(statistics.mean, np.array([[3.0, 4.0]])):
    np.testing.assert_array_equal(bound, [np.nan, np.nan])
  measure = statistics.probability_of_improvement
  for bound in statistics.interval(measure, _SCORES, _REFERENCE[:1]):
    assert np.isnan(bound)


def test_tasks_with_one_seed_each_have_no_interval():
  measure = statistics.interquartile_mean
  tasks = [_SCORES[:1], _REFERENCE[:1]]
  assert np.isnan(statistics.stratified_interval(measure, tasks)).all()
  low, high = statistics.stratified_interval(measure, [*tasks, _SCORES])
  assert low < high


def test_an_interval_as_text():
  scores = np.array([1_200.0, 1_200.0])
  bounds = statistics.interval(statistics.mean, scores)
  assert statistics.format_interval(bounds, ",.1f") == "1,200.0 to 1,200.0"
  bounds = statistics.interval(statistics.mean, scores[:1])
  assert statistics.format_interval(bounds, ",.1f") == ""
