"""NodeState: one node's newest report, and sums over its processes."""

import time

import msgspec

from slipway.launch.orchestration import messages
from slipway.launch.runs import run_counters

# Two reports describe the same wait if its start differs by at most this.
_SAME_WAIT_S = 1.0
_COUNTS = run_counters.NodeCounts.__struct_fields__


class NodeState(msgspec.Struct, forbid_unknown_fields=True):
  """The state of one node, as the control node knows it.

  Attributes:
    report: newest report, or None if no process of the node has reported since
      the user's command.
    earlier: sums over the node's earlier processes.
    finished: whether the node has ended.
    reported_at_s: monotonic seconds of the newest report, or None before it.
    waiting_since_s: monotonic seconds since which the node waits, or None if it
      does not wait.
    restarts: number of restarts during the run's commands; the start of a node
      in a resumed run is not a restart.
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
    """Returns the state of a node in a resumed run."""
    return cls(
      earlier=_without_items_in_flight(counters.counts),
      restarts=counters.restarts,
      incarnations=counters.incarnations,
    )

  @property
  def counts(self) -> run_counters.NodeCounts:
    """Sums over all processes of the node."""
    return run_counters.NodeCounts(
      *(
        getattr(self.earlier, name) + getattr(self.report, name, 0)
        for name in _COUNTS
      )
    )

  @property
  def counters(self) -> run_counters.NodeCounters:
    """The node's counters for a snapshot."""
    return run_counters.NodeCounters(
      self.counts, self.restarts, self.incarnations
    )

  @property
  def reported(self) -> bool:
    """Whether a process of the node has reported since the user's command."""
    return self.reported_at_s is not None

  @property
  def up(self) -> bool:
    """Whether the node has reported and not ended."""
    return self.reported and not self.finished

  @property
  def waiting_s(self) -> float:
    """Seconds for which the node has waited, or 0.0 if it does not wait."""
    if self.waiting_since_s is None or self.finished:
      return 0.0
    return time.monotonic() - self.waiting_since_s

  def is_restarted(self, report: messages.Report) -> bool:
    """Returns whether a report is the first one of a restarted process."""
    known = self.report
    return known is not None and known.incarnation != report.incarnation

  def silent_since(self, since_s: float) -> bool:
    """Returns whether the node has sent no report since a given time.

    Args:
      since_s: monotonic seconds.
    """
    return self.reported_at_s is None or self.reported_at_s < since_s

  def record(self, report: messages.Report, finished: bool) -> None:
    """Records a report.

    Args:
      report: the newest report.
      finished: whether it is the last report of its process.
    """
    restarted = self.is_restarted(report)
    if restarted:
      self.earlier = _without_items_in_flight(self.counts)
      self.restarts += 1
    if restarted or not self.reported:
      self.incarnations += 1
      self.finished = False
    self.report = report
    self.finished = self.finished or finished
    self.reported_at_s = time.monotonic()
    self._record_wait(getattr(report, "waiting_s", None))

  def _record_wait(self, waiting_s: float | None) -> None:
    """Records since when the node waits.

    Args:
      waiting_s: seconds for which the node has waited, or None for no wait.
    """
    if waiting_s is None or self.reported_at_s is None:
      self.waiting_since_s = None
      return
    since_s, before_s = self.reported_at_s - waiting_s, self.waiting_since_s
    # The delay of reports varies, so the start of the same wait is computed
    # slightly differently each time. The first value is kept, so that the
    # displayed start does not change.
    if before_s is None or abs(since_s - before_s) > _SAME_WAIT_S:
      self.waiting_since_s = since_s


def _without_items_in_flight(
  counts: run_counters.NodeCounts,
) -> run_counters.NodeCounts:
  """Returns counts of a dead process: its items in flight count as lost."""
  delivered = counts.items_confirmed + counts.items_discarded
  lost = counts.items_written - delivered
  return msgspec.structs.replace(counts, items_lost=lost)
