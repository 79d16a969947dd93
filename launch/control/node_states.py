"""NodeStates: the states of all nodes: presence, reports, waits and sums."""

import time
import typing
from collections.abc import Collection, Iterator, Mapping

import msgspec

from slipway.launch.control import messages, waits
from slipway.launch.runs import run_counters, run_status

_WORKER = "worker"
# Roles whose nodes collect experience. External processes may disconnect at any
# time, so the run never waits for them.
COLLECTING = (_WORKER, messages.EXTERNAL)
# Seconds without a report after which a node counts as silent, because it hangs
# or can't reach the control.
_SILENT_AFTER_S = 5.0
# Seconds after which a node's wait appears in the status. Shorter waits are
# normal with a rate limiter.
_WAITING_AFTER_S = 3.0
# Seconds by which the start of a wait may differ between two reports of the
# same wait, because the reports' delay varies.
_SAME_WAIT_S = 1.0

# The type of one role's reports, such as `messages.WorkerReport`.
Report = typing.TypeVar("Report", bound=messages.NodeReport)


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


class NodeStates:
  """The states of a run's nodes, by role and index.

  A node is present if the run expects it and it has a machine. An external
  process is present while it reports.

  ```python
  nodes = NodeStates({'worker': 1}, has_table=True)
  node = nodes.find_or_add('worker', 0)
  counts = run_status.NodeCounts(env_steps=7)
  node.record(messages.WorkerReport(counts=counts), finished=False)
  nodes.sum_counts().env_steps  # 7
  ```
  """

  def __init__(
    self,
    expected: Mapping[str, int],
    has_table: bool,
    resumed: run_counters.RunCounters | None = None,
  ):
    """Starts with the nodes of the snapshot of a resumed run, if any.

    Args:
      expected: number of nodes of each role that will report.
      has_table: whether the run has a table, which needs at least one worker or
        external process.
      resumed: counters of the snapshot, or None if the run is new.
    """
    self._expected, self._has_table = dict(expected), has_table
    # Role and index of each node that currently has no machine.
    self._absent: set[tuple[str, int]] = set()
    # By role and index.
    self._nodes: dict[str, dict[int, NodeState]] = {
      role: {index: NodeState(counters) for index, counters in nodes.items()}
      for role, nodes in (resumed.nodes if resumed else {}).items()
    }

  def find_or_add(self, role: str, index: int) -> NodeState:
    """Returns the state of a node, or adds an empty one if it has none."""
    nodes = self._nodes.setdefault(role, {})
    return nodes.setdefault(index, NodeState())

  def set_expected(self, role: str, count: int) -> None:
    """Sets the number of nodes of a role that will report."""
    self._expected[role] = count

  def set_absent(self, nodes: Collection[tuple[str, int]]) -> None:
    """Sets which nodes currently have no machine; the run waits for none.

    Args:
      nodes: role and index of each such node.
    """
    self._absent = set(nodes)

  def registration(self, role: str, index: int) -> messages.Registration:
    """Returns counts of a node's earlier processes.

    Before its first one, its environment steps are the mean of the other nodes
    of its role, and for the first external process that of the workers: one
    that joins explores as much as those do now.
    """
    nodes = self._nodes.get(role, {})
    if node := nodes.get(index):
      return messages.Registration(
        node.counters.incarnations, node.counters.counts.env_steps
      )
    if not nodes and role == messages.EXTERNAL:
      nodes = self._nodes.get(_WORKER, {})
    steps = [node.counters.counts.env_steps for node in nodes.values()]
    return messages.Registration(0, sum(steps) // max(1, len(steps)))

  def expected(self) -> dict[str, int]:
    """Returns the expected number of nodes by role.

    The expected number of external processes is the number of connected ones.
    """
    connected = len(self._present_nodes(messages.EXTERNAL))
    expected = dict(self._expected)
    if connected or self._needs_external:
      expected[messages.EXTERNAL] = connected
    return expected

  def by_index(self, role: str) -> dict[int, NodeState]:
    """Returns the states of a role's nodes by index, also of absent nodes."""
    return dict(sorted(self._nodes.get(role, {}).items()))

  def reports(self, role: str, report_type: type[Report]) -> list[Report]:
    """Returns the newest report of each present node of a role.

    Args:
      report_type: type of the role's reports; others are left out.
    """
    reports = [node.report for node in self._present_nodes(role)]
    return [report for report in reports if isinstance(report, report_type)]

  def sum_counts(self) -> run_status.NodeCounts:
    """Returns sums over all processes of all nodes, also of ended ones."""
    return run_status.NodeCounts.from_sum(
      node.counters.counts for _, _, node in self._all_nodes()
    )

  def counters(self) -> dict[str, dict[int, run_counters.NodeCounters]]:
    """Returns the counters of each node, by role and index."""
    return {
      role: {index: node.counters for index, node in nodes.items()}
      for role, nodes in self._nodes.items()
    }

  def statuses(self) -> dict[str, run_status.NodesStatus]:
    """Returns the numbers of nodes by role, without roles that have none."""
    return {
      role: run_status.NodesStatus(
        sum(node.is_up for node in self._present_nodes(role)), count
      )
      for role, count in self.expected().items()
      if count or (role == messages.EXTERNAL and self._needs_external)
    }

  def restarts(self) -> dict[str, int]:
    """Returns the restarts of each restarted node, by name ('worker/0').

    External processes are left out, because the launcher does not restart them.
    """
    return {
      f"{role}/{index}": node.counters.restarts
      for role, index, node in self._all_nodes()
      if node.counters.restarts and role != messages.EXTERNAL
    }

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node reported."""
    return max(
      (
        report.variables_version or 0
        for role, report_type in (
          ("trainer", messages.TrainerReport),
          ("proxy", messages.ProxyReport),
          (_WORKER, messages.WorkerReport),
        )
        for report in self.reports(role, report_type)
      ),
      default=0,
    )

  def collected_version(self) -> int:
    """Returns the newest version of the variables whose round is complete.

    A round is complete once every worker has collected its share, and the
    server has confirmed all items. The result is 0 if a worker has not yet
    collected or is not up.
    """
    nodes = self._present_nodes(_WORKER)
    if len(nodes) < self._count_present(_WORKER):
      return 0
    return min(
      (
        node.report.collected_version
        if isinstance(node.report, messages.WorkerReport) and node.is_up
        else 0
        for node in nodes
      ),
      default=0,
    )

  def compute_proxy_share(self, index: int) -> float:
    """Returns the part of the limit on steps that a proxy's workers get.

    Shares are proportional to the machines' numbers of live workers and
    external processes, by the newest reports. A proxy without any has the share
    of one, for a worker that is about to connect.
    """
    node = self._nodes.get("proxy", {}).get(index)
    report = node.report if node else None
    is_known = isinstance(report, messages.ProxyReport)
    own = max(1, report.live_workers) if is_known else 1
    total = sum(
      report.live_workers
      for report in self.reports("proxy", messages.ProxyReport)
    )
    return own / max(own, total)

  def find_silent_nodes(self) -> list[str]:
    """Returns the nodes that no longer report, as texts such as 'worker 1'."""
    since_s = time.monotonic() - _SILENT_AFTER_S
    return [
      f"{role} {index}"
      for role, index, node in self._all_nodes()
      if node.is_up
      and node.is_silent_since(since_s)
      and self._is_present(role, index)
    ]

  def describe_waits(self, ignored: Collection[str] = ()) -> str | None:
    """Returns a sentence about the waiting nodes of one role, or None.

    The roles are checked in the order of cause: a wait of an earlier role
    causes the waits of later roles. The first role with a waiting node is
    described.

    Args:
      ignored: reasons of waits to leave out, such as `waits.TABLE`.

    Returns:
      A sentence of `waits.describe`, or None if no node has waited for longer
      than 3 s.
    """
    for role in (
      _WORKER,
      messages.EXTERNAL,
      "proxy",
      "trainer",
      "evaluator",
    ):
      blocked = [
        wait
        for node in self._present_nodes(role)
        if (wait := node.wait)
        and wait.waited_s > _WAITING_AFTER_S
        and wait.reason not in ignored
      ]
      if blocked:
        return waits.describe(role, self.expected()[role], blocked, time.time())
    return None

  def _all_nodes(self) -> Iterator[tuple[str, int, NodeState]]:
    """Yields role, index and state of each node, including ended nodes."""
    for role, nodes in sorted(self._nodes.items()):
      for index, node in sorted(nodes.items()):
        yield role, index, node

  def _present_nodes(self, role: str) -> list[NodeState]:
    """Returns the states of a role's present nodes."""
    return [
      node
      for index, node in self._nodes.get(role, {}).items()
      if self._is_present(role, index)
    ]

  def _is_present(self, role: str, index: int) -> bool:
    """Returns whether a node is present, as `NodeStates` defines it."""
    if role == messages.EXTERNAL:
      node = self._nodes[role][index]
      return node.is_up and not node.is_silent_since(
        time.monotonic() - _SILENT_AFTER_S
      )
    expected = index < self._expected.get(role, 0)
    return expected and (role, index) not in self._absent

  def _count_present(self, role: str) -> int:
    """Returns the number of expected nodes of a role that have a machine."""
    count = self._expected.get(role, 0)
    return sum(self._is_present(role, index) for index in range(count))

  @property
  def _needs_external(self) -> bool:
    """Whether only external processes fill the table, without any worker."""
    return self._has_table and not self._expected.get(_WORKER)
