"""Statistics of returns over seeds, with bootstrap confidence intervals.

The measures are those of Agarwal et al. 2021, "Deep reinforcement learning at
the edge of the statistical precipice" (https://arxiv.org/abs/2108.13264),
section 4.
"""

from collections.abc import Callable, Sequence

import numpy as np

_CONFIDENCE = 0.95
_RESAMPLED = 2_000  # bootstrap samples per interval
_TRIMMED = 0.25  # part of the seeds that the IQM leaves out on each side


def mean(scores: np.ndarray) -> np.ndarray:
  """Returns the mean over the seeds, [...] for scores [R, ...]."""
  return scores.mean(axis=0)


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
  """Returns the mean of the middle half of the seeds (IQM), [...].

  It ignores outliers, as the median does, and uses more of the seeds.

  Args:
    scores: [R, ...] of R seeds, at least one.
  """
  cut = int(_TRIMMED * len(scores))
  return np.sort(scores, axis=0)[cut : len(scores) - cut].mean(axis=0)


def optimality_gap(scores: np.ndarray, target: float) -> np.ndarray:
  """Returns the mean over the seeds of max(0, target - score), [...].

  Args:
    scores: [R, ...] of R seeds.
    target: score from which a seed counts as optimal.
  """
  return np.maximum(target - scores, 0.0).mean(axis=0)


def probability_of_improvement(
  scores: np.ndarray, reference: np.ndarray
) -> np.ndarray:
  """Returns the probability [...] that one seed scores more than a reference's.

  This is the statistic of the Mann-Whitney U test, divided by the number of
  pairs; an equal pair counts as half.

  Args:
    scores: [R, ...] of R seeds.
    reference: [S, ...] of S seeds of the reference.
  """
  scores, reference = scores[:, None], reference[None]
  better = (scores > reference) + 0.5 * (scores == reference)
  return better.mean(axis=(0, 1))


def interval(
  measure: Callable[..., np.ndarray], *scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the 95 % percentile bootstrap interval of a measure over seeds.

  Section 4.1. The seeds of each argument are drawn independently. The random
  draws are the same in each call.

  Args:
    measure: function of as many arrays as there are `scores`.
    *scores: [R, ...] each, with a number of seeds R of its own.

  Returns:
    Lower and upper bounds, each of the shape that `measure` returns. They are
    nan if one of the arguments has a single seed, which does not show how much
    seeds differ: the bootstrap would find an interval of width zero.
  """
  if min(map(len, scores)) < 2:
    none = np.full(np.shape(measure(*scores)), np.nan)
    return none, none
  return _find_bounds(measure(*_draw(scores)))


def stratified_interval(
  measure: Callable[[np.ndarray], np.ndarray], tasks: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the 95 % bootstrap interval of a measure over tasks and seeds.

  Section 4.1. The seeds of each task are drawn independently, and the measure
  is of the scores of all tasks together.

  Args:
    measure: function of scores [R, ...].
    tasks: scores [R] of each task, with a number of seeds R of its own.

  Returns:
    Lower and upper bound, [] each; nan if all tasks have a single seed.
  """
  if max(map(len, tasks)) < 2:
    return np.array(np.nan), np.array(np.nan)
  return _find_bounds(measure(np.concatenate(_draw(tasks))))


def format_interval(bounds: Sequence[float | np.ndarray], spec: str) -> str:
  """Returns an interval as text: 'LOW to HIGH', or '' if its bounds are nan.

  Args:
    bounds: lower and upper bound, each a float or an array [].
    spec: format specification of a bound, such as '.2f'.
  """
  low, high = map(float, bounds)
  return "" if np.isnan(low) else f"{low:{spec}} to {high:{spec}}"


def _draw(scores: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Draws bootstrap samples, [R, ..., samples], of each array [R, ...]."""
  generator = np.random.default_rng(0)
  # The samples are the last axis, since measures reduce the first one.
  return [
    np.moveaxis(x[generator.integers(len(x), size=(len(x), _RESAMPLED))], 1, -1)
    for x in scores
  ]


def _find_bounds(measured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the bounds [...] of a 95 % interval of samples [..., samples]."""
  outside = 50 * (1 - _CONFIDENCE)
  low, high = np.percentile(measured, (outside, 100 - outside), axis=-1)
  return low, high
