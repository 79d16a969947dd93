"""RestartBudget: decides whether and when a failed node is restarted."""

import collections

# Seconds before the first restart. The delay doubles with each further one
# within the period.
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0


class RestartBudget:
  """The restarts that one node may have within a period.

  A node that fails rarely is always restarted. A node that fails more often
  than its budget allows has a fault that a restart does not repair.
  """

  def __init__(self, budget: int, period_s: float):
    """Starts with the whole budget.

    Args:
      budget: number of restarts within a period; 0: none.
      period_s: seconds after which a failure no longer counts.
    """
    self._budget = budget
    self._period_s = period_s
    self._failed_at_s: collections.deque[float] = collections.deque()

  def count_failure(self, now_s: float) -> float | None:
    """Counts a failure, and returns the delay of the restart.

    Args:
      now_s: current monotonic seconds.

    Returns:
      The seconds until the restart; None: the budget is used up.
    """
    self._drop_old(now_s)
    failed = self._failed_at_s
    if len(failed) >= self._budget:
      return None
    # A float holds no power of two above 2^1023.
    doublings = min(len(failed), 100)
    delay_s = min(_FIRST_DELAY_S * 2.0**doublings, _LONGEST_DELAY_S)
    failed.append(now_s)
    return delay_s

  def is_unused(self, now_s: float) -> bool:
    """Returns whether no failure counts any more."""
    self._drop_old(now_s)
    return not self._failed_at_s

  def _drop_old(self, now_s: float) -> None:
    failed = self._failed_at_s
    while failed and now_s - failed[0] > self._period_s:
      failed.popleft()
