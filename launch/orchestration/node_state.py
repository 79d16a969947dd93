"""NodeState: one node's newest report, and sums over its processes."""

import time

import msgspec

from slipway.launch.orchestration import messages
from slipway.launch.runs import run_counters

# Two reports of one wait put its beginning at most so far apart.
_SAME_WAIT_S = 1.0
_COUNTS = run_counters.NodeCounts.__struct_fields__


class NodeState(msgspec.Struct, forbid_unknown_fields=True):
  """One node of a run.

  Attributes:
    report: the newest; None: no process of this run has reported.
    earlier: sums over the node's processes before the one that reports.
    finished: whether the node has ended.
    reported_at_s: monotonic seconds of the newest report.
    waiting_since_s: monotonic seconds since which the node waits; None: it
      does not.
    restarts: how often it was started again while the run went on.
    incarnations: processes that were this node, those before a resume too.
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
    """Returns a node of a run that was resumed: none of its processes lives."""
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
    """What a snapshot keeps of the node."""
    return run_counters.NodeCounters(
      self.counts, self.restarts, self.incarnations
    )

  @property
  def reported(self) -> bool:
    """Whether a process of this run has reported."""
    return self.reported_at_s is not None

  @property
  def up(self) -> bool:
    """Whether the node has reported and not ended."""
    return self.reported and not self.finished

  @property
  def waiting_s(self) -> float:
    """Seconds for which the node has waited; 0.0: it does not wait."""
    if self.waiting_since_s is None or self.finished:
      return 0.0
    return time.monotonic() - self.waiting_since_s

  def is_restarted(self, report: messages.Report) -> bool:
    """Whether a report is the first of a process that was started again."""
    known = self.report
    return known is not None and known.incarnation != report.incarnation

  def silent_since(self, since_s: float) -> bool:
    """Whether the node has not reported since monotonic seconds."""
    return self.reported_at_s is None or self.reported_at_s < since_s

  def take(self, report: messages.Report, finished: bool) -> None:
    """Takes a report.

    Args:
      report: replaces the one before.
      finished: whether it is the process's last.
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
    self._take_wait(getattr(report, "waiting_s", None))

  def _take_wait(self, waiting_s: float | None) -> None:
    if waiting_s is None or self.reported_at_s is None:
      self.waiting_since_s = None
      return
    since_s, before_s = self.reported_at_s - waiting_s, self.waiting_since_s
    # Reports are delayed: the beginning that is shown must not flicker.
    if before_s is None or abs(since_s - before_s) > _SAME_WAIT_S:
      self.waiting_since_s = since_s


def _without_items_in_flight(
  counts: run_counters.NodeCounts,
) -> run_counters.NodeCounts:
  """Counts as lost what was in flight when the node's process ended."""
  delivered = counts.items_confirmed + counts.items_discarded
  lost = counts.items_written - delivered
  return msgspec.structs.replace(counts, items_lost=lost)
