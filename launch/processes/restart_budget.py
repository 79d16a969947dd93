"""RestartBudget: decides whether and when a failed node is restarted."""

import collections

from slipway.launch.processes import failures

# Seconds between a failure and the first restart. The delay doubles with each
# further restart within the period.
_FIRST_DELAY_S = 0.1
# Longest delay in seconds between a failure and a restart.
_LONGEST_DELAY_S = 10.0


class RestartBudget:
  """Limits the number of restarts that one node may have within a period.

  A node that fails rarely is always restarted. A node that fails more often
  than its budget allows has a fault that a restart does not repair.
  """

  def __init__(self, budget: int, period_s: float):
    """Starts with an unused budget.

    Args:
      budget: number of restarts allowed within a period; 0 if the node is never
        restarted.
      period_s: seconds after which a failure no longer counts.
    """
    self._budget = budget
    self._period_s = period_s
    self._failed_at_s: collections.deque[float] = collections.deque()

  def count_failure(self, now_s: float) -> float | None:
    """Counts a failure, and returns how long to wait before the restart.

    Args:
      now_s: current monotonic seconds.

    Returns:
      The seconds until the restart, or None if the budget is used up.
    """
    self._drop_old_failures(now_s)
    failed_at_s = self._failed_at_s
    if len(failed_at_s) >= self._budget:
      return None
    # The exponent is bounded, because a float can't hold powers above 2^1023.
    doublings = min(len(failed_at_s), 100)
    delay_s = min(_FIRST_DELAY_S * 2.0**doublings, _LONGEST_DELAY_S)
    failed_at_s.append(now_s)
    return delay_s

  def is_unused(self, now_s: float) -> bool:
    """Returns whether no counted failure lies in the period before `now_s`.

    Args:
      now_s: current monotonic seconds.
    """
    self._drop_old_failures(now_s)
    return not self._failed_at_s

  def _drop_old_failures(self, now_s: float) -> None:
    """Drops the failures that happened more than a period before `now_s`."""
    failed_at_s = self._failed_at_s
    while failed_at_s and now_s - failed_at_s[0] > self._period_s:
      failed_at_s.popleft()


class FailureHistory:
  """The failures of what is restarted within a budget, oldest first.

  They are forgotten once the budget's period has passed without a failure.
  """

  def __init__(self, budget: RestartBudget):
    """Starts without failures."""
    self._budget = budget
    self._failures: list[failures.Failure] = []

  def record(self, failure: failures.Failure, now_s: float) -> float | None:
    """Records a failure, and uses one restart; see `count_failure`."""
    if self._budget.is_unused(now_s):
      self._failures.clear()
    self._failures.append(failure)
    return self._budget.count_failure(now_s)

  @property
  def first(self) -> failures.Failure:
    """The oldest of at least one failure, preferably with a traceback."""
    with_traceback = [each for each in self._failures if each.traceback]
    return (with_traceback or self._failures)[0]
