"""Restarts: how often and how soon a node that failed is started again."""

import collections

# Seconds before the first restart; each further one within the period waits
# twice as long.
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0


class Restarts:
  """The restarts of one node.

  A node that fails now and then is started again for ever; one that fails more
  often than its budget within a period has a fault that restarting does not
  mend.
  """

  def __init__(self, budget: int, period_s: float):
    """Starts with the whole budget.

    Args:
      budget: restarts within a period; 0: none.
      period_s: seconds after which a failure is forgiven.
    """
    self._budget = budget
    self._period_s = period_s
    self._failed_at_s: collections.deque[float] = collections.deque()

  def delay_s(self, now_s: float) -> float | None:
    """Takes a failure; returns the seconds until the restart.

    Args:
      now_s: monotonic seconds.

    Returns:
      None if the budget is used up.
    """
    self._forgive(now_s)
    failed = self._failed_at_s
    if len(failed) >= self._budget:
      return None
    # A float holds no power of two above 2^1023.
    doublings = min(len(failed), 100)
    delay_s = min(_FIRST_DELAY_S * 2.0**doublings, _LONGEST_DELAY_S)
    failed.append(now_s)
    return delay_s

  def all_forgiven(self, now_s: float) -> bool:
    """Whether no failure counts any more."""
    self._forgive(now_s)
    return not self._failed_at_s

  def _forgive(self, now_s: float) -> None:
    failed = self._failed_at_s
    while failed and now_s - failed[0] > self._period_s:
      failed.popleft()
