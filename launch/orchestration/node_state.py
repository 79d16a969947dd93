"""NodeState: one node's newest report, and sums over all of its processes."""

import time

import msgspec

from slipway.launch.orchestration import messages, waits
from slipway.launch.runs import run_counters

# Seconds by which the start of a wait may differ between two reports of the
# same wait, because the reports' delay varies.
_SAME_WAIT_S = 1.0


class NodeState(msgspec.Struct, forbid_unknown_fields=True):
  """The control's record of one node: its newest report and its sums.

  Attributes:
    report: newest report, or None if no process of the node has reported since
      the run was started or resumed.
    earlier: sums over the node's processes before the current one.
    finished: whether the node has ended.
    reported_at_s: monotonic seconds of the newest report, or None before it.
    waiting_since_s: monotonic seconds at which the node's current wait began,
      or None if the node does not wait.
    restarts: number of the node's restarts; its first start after a resume of
      the run is not a restart.
    incarnations: number of the node's processes, including those before the run
      was resumed.
  """

  report: messages.Report | None = None
  earlier: run_counters.NodeCounts = run_counters.NodeCounts()
  finished: bool = False
  reported_at_s: float | None = None
  waiting_since_s: float | None = None
  restarts: int = 0
  incarnations: int = 0

  @classmethod
  def from_counters(cls, counters: run_counters.NodeCounters) -> "NodeState":
    """Returns the state of a node in a resumed run.

    Args:
      counters: the node's counters in the snapshot. Items that were in flight
        then count as lost.
    """
    return cls(
      earlier=_without_items_in_flight(counters.counts),
      restarts=counters.restarts,
      incarnations=counters.incarnations,
    )

  @property
  def counts(self) -> run_counters.NodeCounts:
    """Sums of the counts over all processes of the node."""
    if self.report is None:
      return self.earlier
    return run_counters.NodeCounts.from_sum([self.earlier, self.report.counts])

  @property
  def counters(self) -> run_counters.NodeCounters:
    """The node's counters, for a new snapshot."""
    return run_counters.NodeCounters(
      self.counts, self.restarts, self.incarnations
    )

  @property
  def has_reported(self) -> bool:
    """Whether the node has reported since the run was started or resumed."""
    return self.reported_at_s is not None

  @property
  def is_up(self) -> bool:
    """Whether the node has reported and has not ended."""
    return self.has_reported and not self.finished

  @property
  def wait(self) -> waits.Wait | None:
    """The node's current wait, or None if it does not wait."""
    reported = self.report and self.report.wait
    if reported is None or self.waiting_since_s is None or self.finished:
      return None
    return waits.Wait(reported.reason, time.monotonic() - self.waiting_since_s)

  def is_restarted(self, report: messages.Report) -> bool:
    """Returns whether a report comes from a newer process of the node."""
    known = self.report
    return known is not None and known.incarnation != report.incarnation

  def is_silent_since(self, since_s: float) -> bool:
    """Returns whether the node has sent no report since a given time.

    Args:
      since_s: monotonic seconds.
    """
    return self.reported_at_s is None or self.reported_at_s < since_s

  def record(self, report: messages.Report, finished: bool) -> None:
    """Records the node's newest report.

    The first report of a new process adds the last counts of the process before
    to `earlier`.

    Args:
      report: the newest report.
      finished: whether this is the last report, because the node has ended.
    """
    restarted = self.is_restarted(report)
    if restarted:
      self.earlier = _without_items_in_flight(self.counts)
      self.restarts += 1
    if restarted or not self.has_reported:
      self.incarnations += 1
      self.finished = False
    self.report = report
    self.finished = self.finished or finished
    self.reported_at_s = time.monotonic()
    self._record_wait(report.wait)

  def _record_wait(self, wait: waits.Wait | None) -> None:
    """Sets `waiting_since_s` from a report that has just arrived.

    Args:
      wait: the node's wait, or None if it does not wait.
    """
    if wait is None or self.reported_at_s is None:
      self.waiting_since_s = None
      return
    since_s, before_s = self.reported_at_s - wait.waited_s, self.waiting_since_s
    # The delay of reports varies, so the start of the same wait is computed
    # slightly differently each time. The first value is kept, so that the
    # displayed start does not change.
    if before_s is None or abs(since_s - before_s) > _SAME_WAIT_S:
      self.waiting_since_s = since_s


def _without_items_in_flight(
  counts: run_counters.NodeCounts,
) -> run_counters.NodeCounts:
  """Returns the counts of a dead process, with its items in flight as lost."""
  delivered = counts.items_confirmed + counts.items_discarded
  lost = counts.items_written - delivered
  return msgspec.structs.replace(counts, items_lost=lost)
