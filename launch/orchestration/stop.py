"""Stop: the state of a run's stop, from the request until all nodes have ended.

`stop_order` defines the order of the roles and their grace periods.
"""

import math
import signal

from slipway.launch.orchestration import node_states, stop_order

# In a forced shutdown: seconds without a report after which a node counts as
# ended.
_SILENT_AFTER_S = 2.0
# Longest time in seconds after a stop request for which the grace periods wait
# for nodes that are still starting. Without it, a node that died before its
# first report would delay them forever.
_START_TIMEOUT_S = 15.0


class Stop:
  """Decides which nodes of a stopping run may stop, and when the run has ended.

  All times are monotonic seconds.

  ```python
  stop = Stop(nodes, now_s)
  stop.request('SIGTERM', now_s)
  stop.update(now_s)  # regularly
  stop.may_stop('trainer', now_s)  # False until workers have ended
  ```

  Attributes:
    reason: reason of the stop, or None if no stop was requested.
  """

  def __init__(self, nodes: node_states.NodeStates, now_s: float):
    """Starts without a request.

    Args:
      nodes: the states of the run's nodes.
      now_s: current time.
    """
    self.reason: str | None = None
    self._nodes = nodes
    self._forced = False
    # Whether the last snapshot may take only seconds, since the nodes may be
    # killed soon: after a signal or a failure.
    self._is_quick = False
    self._requested_at_s = now_s
    # Begin of the first group's grace period, which moves forward while the
    # last snapshot is written.
    self._grace_from_s = now_s
    self._updated_at_s = now_s

  @property
  def last_snapshot_s(self) -> float:
    """Seconds that the last snapshot may take, with its upload."""
    return stop_order.last_snapshot_s(self._is_quick)

  def request(self, reason: str, now_s: float, forced: bool = False) -> bool:
    """Requests the stop; returns whether this is the first request.

    Args:
      reason: reason of the stop for the user. A later request does not change
        it, but the name of a signal shortens the time for the last snapshot.
      now_s: current time.
      forced: whether nodes that no longer report count as ended. It also
        shortens the time for the last snapshot.
    """
    self._forced |= forced
    self._is_quick |= forced or reason in signal.Signals.__members__
    if self.reason is not None:
      return False
    self.reason = reason
    self._requested_at_s = self._grace_from_s = now_s
    return True

  def check_not_requested(self) -> None:
    """Checks that a user's command can still have an effect.

    Raises:
      ValueError: the run is stopping.
    """
    if self.reason is not None:
      raise ValueError(
        f"the run is stopping ({self.reason}), so nothing changes"
      )

  def update(self, now_s: float) -> None:
    """Delays the grace periods if need be; must be called regularly.

    A node that is still importing modules can't handle the stop yet. So the
    grace periods begin when all nodes are up, at most 15 s after the request.
    Where there is time, they do not pass while the last snapshot is written.

    Args:
      now_s: current time.
    """
    requested_s = now_s - self._requested_at_s
    waits_for_start = requested_s < _START_TIMEOUT_S and not self._forced
    if waits_for_start and not self._nodes.have_all_reported():
      self._grace_from_s = now_s
    if self._nodes.is_finishing() and not self._is_quick:
      self._grace_from_s += now_s - self._updated_at_s
    self._updated_at_s = now_s

  def may_stop(self, role: str, now_s: float) -> bool:
    """Returns whether the run is stopping and a role's nodes may stop now.

    Args:
      role: the nodes' role, such as 'worker'.
      now_s: current time.

    Raises:
      ValueError: the role has no place in the stop order.
    """
    if self.reason is None:
      return False
    waited_s = now_s - self._grace_from_s
    return stop_order.may_stop(role, waited_s, self._nodes.finished)

  def all_finished(self, now_s: float) -> bool:
    """Returns whether a stop was requested and the run's nodes have ended.

    Nodes whose grace period has passed count as ended.

    Args:
      now_s: current time.
    """
    if self.reason is None:
      return False
    # A failed node sends no last report, so it counts as ended if it is silent.
    silent_s = _SILENT_AFTER_S if self._forced else math.inf
    waited_s = now_s - self._grace_from_s
    return waited_s > stop_order.LONGEST_S or all(
      self._nodes.finished(role, silent_s) for role in stop_order.ROLES
    )
