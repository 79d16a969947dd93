"""NodeState: one node's newest report, and sums over all of its processes."""

import time

import msgspec

from slipway.launch.control import messages, waits
from slipway.launch.runs import run_counters, run_status

# Seconds by which the start of a wait may differ between two reports of the
# same wait, because the reports' delay varies.
_SAME_WAIT_S = 1.0


class NodeState:
  """The control's record of one node: its newest report and its counts.

  Attributes:
    report: newest report, or None if no process of the node has reported since
      the run was started or resumed.
    counters: the node's counts, restarts and processes, for a new snapshot.
    finished: whether the node has ended.
    reported_at_s: monotonic seconds of the newest report, or None before it.
    waiting_since_s: monotonic seconds at which the node's current wait began,
      or None if the node does not wait.
  """

  def __init__(self, counters: run_counters.NodeCounters | None = None):
    """Starts with a node's counters in a snapshot, or with zeros."""
    self.counters = counters or run_counters.NodeCounters()
    self.report: messages.Report | None = None
    self.finished = False
    self.reported_at_s: float | None = None
    self.waiting_since_s: float | None = None

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

  def is_silent_since(self, since_s: float) -> bool:
    """Returns whether the node has sent no report since a given time.

    Args:
      since_s: monotonic seconds.
    """
    return self.reported_at_s is None or self.reported_at_s < since_s

  def record(self, report: messages.Report, finished: bool) -> None:
    """Records the node's newest report.

    The first report of a new process adds the last counts of the process before
    to those of earlier ones, with its items in flight as lost. The node's first
    start after a resume of the run is not a restart.

    Args:
      report: the newest report.
      finished: whether this is the last report, because the node has ended.
    """
    counters = self.counters
    # Only a process that identifies itself can have outlived a resume.
    is_known = self.has_reported or report.incarnation > 0.0
    if not is_known or report.incarnation != counters.process:
      counters = run_counters.NodeCounters(
        earlier=_without_items_in_flight(counters.counts),
        process=report.incarnation,
        restarts=counters.restarts + self.has_reported,
        incarnations=counters.incarnations + 1,
      )
      self.finished = False
    self.counters = msgspec.structs.replace(counters, newest=report.counts)
    self.report = report
    self.finished = self.finished or finished
    self.reported_at_s = time.monotonic()
    self._record_wait(report.wait)

  def _record_wait(self, wait: waits.Wait | None) -> None:
    """Sets `waiting_since_s` from a report that has just arrived."""
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
  counts: run_status.NodeCounts,
) -> run_status.NodeCounts:
  """Returns the counts of a dead process, with its items in flight as lost."""
  delivered = counts.items_confirmed + counts.items_discarded
  lost = counts.items_written - delivered
  return msgspec.structs.replace(counts, items_lost=lost)
