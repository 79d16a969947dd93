"""MeasuredRates: the growth of a run's counts per second."""

import collections
from collections.abc import Mapping

_WINDOW_S = 5.0  # seconds over which a rate is averaged


class MeasuredRates:
  """Measures the growth of counts per second, averaged over the last 5 s.

  ```python
  rates = MeasuredRates()
  rates.add({"env_steps": 100}, now_s=10.0)  # {"env_steps": 0.0}
  rates.add({"env_steps": 150}, now_s=11.0)  # {"env_steps": 50.0}
  ```
  """

  def __init__(self):
    """Starts without samples of the counts."""
    # Monotonic seconds and counts of each sample in the window.
    self._samples: collections.deque[tuple[float, Mapping[str, float]]] = (
      collections.deque()
    )

  def clear(self) -> None:
    """Discards all samples, so that the rates begin at 0."""
    self._samples.clear()

  def add(self, counts: Mapping[str, float], now_s: float) -> dict[str, float]:
    """Adds a sample of the counts, and returns their growth per second.

    A count that falls clears the window, because it means that a node was
    restarted.

    Args:
      counts: the current counts, by name; always the same names.
      now_s: current monotonic seconds.

    Returns:
      The mean growth per second over the window, by name; 0.0 for a single
      sample.
    """
    samples = self._samples
    if samples and any(counts[x] < n for x, n in samples[-1][1].items()):
      samples.clear()
    samples.append((now_s, counts))
    while now_s - samples[0][0] > _WINDOW_S:
      samples.popleft()
    oldest_s, oldest = samples[0]
    passed_s = now_s - oldest_s
    return {
      name: (count - oldest[name]) / passed_s if passed_s > 0 else 0.0
      for name, count in counts.items()
    }
