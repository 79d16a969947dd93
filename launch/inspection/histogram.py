"""Histogram: counts of numbers in bins."""

import msgspec
import numpy as np

_BINS = 16  # bins at most, unless values are whole numbers
# Ratio of the largest value to the smallest from which bins grow by a factor.
_LOGARITHMIC = 1000.0


class Histogram(msgspec.Struct):
  """Counts of numbers in bins.

  Attributes:
    edges: bounds of the bins, one more than there are bins. A bin has its lower
      bound; the last bin has both.
    counts: numbers in each bin.
  """

  edges: list[float]
  counts: list[int]


def make(values: np.ndarray) -> Histogram:
  """Returns the histogram of finite numbers [N], N > 0.

  Bins of a few whole numbers are one each. Those of positive numbers over
  several orders of magnitude grow by a factor; all others are equally wide.
  """
  low, high = float(values.min()), float(values.max())
  if values.dtype.kind in "iub" and high - low < _BINS:
    edges = np.arange(low, high + 2)
  elif values.dtype.kind in "iub":
    width = -(-(high - low + 1) // _BINS)
    edges = np.arange(low, high + 1 + width, width)
  elif low > 0 and high / low >= _LOGARITHMIC:
    edges = np.geomspace(low, high, _BINS + 1)
    edges[[0, -1]] = low, high  # rounding may exclude them
  else:
    edges = np.linspace(low, high, _BINS + 1) if high > low else [low, low]
  counts, edges = np.histogram(values, edges)
  return Histogram(edges.tolist(), counts.tolist())
