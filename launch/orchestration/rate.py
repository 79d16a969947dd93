"""Rate: measures the growth of a count over the last seconds."""

import collections

_WINDOW_S = 5.0


class Rate:
  """Measures the growth of a count over the last seconds."""

  def __init__(self):
    """Starts with no samples."""
    self._samples: collections.deque[tuple[float, float]] = collections.deque()

  def add(self, count: float, now_s: float) -> float:
    """Adds the current count; returns its growth in 1/s over the window.

    A count that falls clears the window, because its node was restarted.
    """
    if self._samples and count < self._samples[-1][1]:
      self._samples.clear()
    self._samples.append((now_s, count))
    while now_s - self._samples[0][0] > _WINDOW_S:
      self._samples.popleft()
    (then_s, before), (now_s, now) = self._samples[0], self._samples[-1]
    return (now - before) / (now_s - then_s) if now_s > then_s else 0.0
