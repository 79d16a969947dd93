"""Rate: measures the growth of a count per second."""

import collections

_WINDOW_S = 5.0  # seconds over which a rate is averaged


class Rate:
  """Measures the growth of a count per second, averaged over the last 5 s."""

  def __init__(self):
    """Starts without samples of the count."""
    # Monotonic seconds and count of each sample in the window.
    self._samples: collections.deque[tuple[float, float]] = collections.deque()

  def add(self, count: float, now_s: float) -> float:
    """Adds a sample of the count, and returns the count's growth per second.

    A count that falls clears the window, because it means that the node was
    restarted.

    Args:
      count: the current count.
      now_s: current monotonic seconds.

    Returns:
      The mean growth per second over the window; 0.0 for a single sample.
    """
    if self._samples and count < self._samples[-1][1]:
      self._samples.clear()
    self._samples.append((now_s, count))
    while now_s - self._samples[0][0] > _WINDOW_S:
      self._samples.popleft()
    oldest_s, oldest_count = self._samples[0]
    if now_s <= oldest_s:
      return 0.0
    return (count - oldest_count) / (now_s - oldest_s)
