"""NodeStates: the states of all nodes: presence, reports, waits and sums."""

import time
import typing
from collections.abc import Collection, Iterator, Mapping

from slipway.launch.control import messages, node_state, waits
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

# The type of one role's reports, such as `messages.WorkerReport`.
Report = typing.TypeVar("Report", bound=messages.NodeReport)


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
    self._nodes: dict[str, dict[int, node_state.NodeState]] = {
      role: {
        index: node_state.NodeState(counters)
        for index, counters in nodes.items()
      }
      for role, nodes in (resumed.nodes if resumed else {}).items()
    }

  def find_or_add(self, role: str, index: int) -> node_state.NodeState:
    """Returns the state of a node, or adds an empty one if it has none."""
    nodes = self._nodes.setdefault(role, {})
    return nodes.setdefault(index, node_state.NodeState())

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

    Args:
      role: the node's role.
      index: index of the node among the nodes of its role.
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

  def by_index(self, role: str) -> dict[int, node_state.NodeState]:
    """Returns the states of a role's nodes by index, also of absent nodes."""
    return dict(sorted(self._nodes.get(role, {}).items()))

  def reports(self, role: str, report_type: type[Report]) -> list[Report]:
    """Returns the newest report of each present node of a role.

    Args:
      role: role of the nodes.
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
        report.variables_version
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

    Args:
      index: index of the proxy.
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

  def _all_nodes(self) -> Iterator[tuple[str, int, node_state.NodeState]]:
    """Yields role, index and state of each node, including ended nodes."""
    for role, nodes in sorted(self._nodes.items()):
      for index, node in sorted(nodes.items()):
        yield role, index, node

  def _present_nodes(self, role: str) -> list[node_state.NodeState]:
    """Returns the states of a role's present nodes.

    A node that has never reported may have no state.
    """
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
