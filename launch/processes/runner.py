"""Runner: starts and restarts the node processes of one machine."""

import contextlib
import os
import pathlib
import threading
import time
import typing
from collections.abc import Callable, Sequence
from multiprocessing import connection

from slipway.launch.processes import (
  failures,
  fork_server,
  prepared_nodes,
  restart_budget,
  signals,
)
from slipway.launch.processes import node as node_lib
from slipway.launch.runs import event_log

_POLL_S = 0.2
# Seconds in which the other nodes may end, once a node has used up its restart
# budget or the control node has ended. Then they are killed.
_GRACE_S = 8.0


class _FailurePolicy(typing.NamedTuple):
  """The consequences of a node's failure, besides its restart.

  Attributes:
    restarted_with: other roles, whose nodes are killed and restarted together
      with the failed node.
    needed_to_stop: whether the failure makes the run fail if the run is already
      stopping, because the node has results to save.
  """

  restarted_with: tuple[str, ...] = ()
  needed_to_stop: bool = False


_POLICIES = {
  "control": _FailurePolicy(needed_to_stop=True),
  # Table and learner must restore the same snapshot, so they restart together.
  "replay": _FailurePolicy(restarted_with=("trainer",), needed_to_stop=True),
  "trainer": _FailurePolicy(needed_to_stop=True),
  "proxy": _FailurePolicy(),
  "worker": _FailurePolicy(),
  "evaluator": _FailurePolicy(),
}


class _WorkersTarget(typing.NamedTuple):
  """The target number of workers, and the time at which it was read."""

  workers: int
  at_s: float  # monotonic


class Runner:
  """Runs nodes as processes of this machine until all have ended.

  Nodes are forked from the fork server, and end if this process ends for any
  reason.
  """

  def __init__(
    self,
    nodes: Sequence[prepared_nodes.PreparedNode],
    logs: pathlib.Path,
    budget: int,
    period_s: float,
    make_worker: Callable[[int, int], prepared_nodes.PreparedNode],
    shards: int = 1,
  ):
    """Makes a runner without starting nodes.

    Args:
      nodes: the nodes to run, in the order of starting.
      logs: folder of the nodes' logs and the runner's event log.
      budget: number of restarts of one node within a period.
      period_s: seconds after which a failure no longer counts.
      make_worker: function that prepares a worker for `set_workers`, called
        with the worker's index and the number of workers.
      shards: number of replay servers; if there are several, the trainer
        continues without a failed one.
    """
    self._policies = dict(_POLICIES)
    if shards > 1:
      self._policies["replay"] = _FailurePolicy()
    self._make_node = lambda prepared: node_lib.Node(
      prepared, logs, restart_budget.RestartBudget(budget, period_s)
    )
    self._make_worker = make_worker
    self._nodes = [self._make_node(prepared) for prepared in nodes]
    self._server_budget = restart_budget.RestartBudget(budget, period_s)
    self._log = event_log.EventLog(logs / "runner")
    # None until `set_workers` is called: then the initial workers are kept.
    self._target: _WorkersTarget | None = None
    self._stopping = threading.Event()
    self._killed = False
    self._shutdown_forced = threading.Event()
    self._failure: failures.Failure | None = None
    self._deadline_s = float("inf")

  def run(self) -> None:
    """Starts all nodes and returns when all have ended.

    Raises:
      failures.NodeFailedError: a node used up its restart budget.
      KeyboardInterrupt: `kill_at_once` was called, and all nodes are killed.
    """
    try:
      for node in self._nodes:
        self._start_node(node)
      while self._step():
        pass
    finally:
      self._kill_all()
    if self._failure is not None:
      raise failures.NodeFailedError(self._failure)

  def stop_restarting(self) -> None:
    """Stops restarting nodes, because the run is ending."""
    self._stopping.set()

  def force_shutdown(self) -> None:
    """Makes each node save and end now, without the stop order."""
    self._stopping.set()
    self._shutdown_forced.set()

  def set_workers(self, count: int, at_s: float) -> None:
    """Sets the target number of workers; must be called regularly.

    Missing workers are started. The control node stops workers with higher
    indices, and they are not restarted.

    Args:
      count: number of workers, from index 0.
      at_s: monotonic seconds at which the number was read, when the run was not
        stopping. A worker that ended after this time is not started again,
        because it may have ended as the run stops.
    """
    self._target = _WorkersTarget(count, at_s)

  def kill_at_once(self) -> None:
    """Makes `run` kill all nodes and raise KeyboardInterrupt.

    Signal handlers call it in the thread of `run`. Before the first node has
    started, `run` does not check for this request, so the first call interrupts
    it by an exception of its own.

    Raises:
      KeyboardInterrupt: this is the first call, and no node has been started.
    """
    was_called_before, self._killed = self._killed, True
    has_started = any(node.incarnations for node in self._nodes)
    if not was_called_before and not has_started:
      raise KeyboardInterrupt

  @property
  def restarts(self) -> dict[str, int]:
    """Number of restarts of each restarted node, by the node's name."""
    return {
      node.name: node.incarnations - 1
      for node in self._nodes
      if node.incarnations > 1
    }

  @property
  def last_error(self) -> failures.Failure | None:
    """An error that ended a node and was not repaired by a restart, or None.

    An example is an error in an environment's `close` at the end of the run. If
    several nodes have such errors, it is that of the first node in the order of
    starting.
    """
    return next(
      (
        node.failure
        for node in self._nodes
        if node.failure and node.failure.traceback
      ),
      None,
    )

  def _step(self) -> bool:
    """Waits shortly for the end of a node, and handles all events.

    Returns:
      Whether any node is alive or will be restarted.
    """
    alive = [node for node in self._nodes if node.alive]
    sentinels = [node.sentinel for node in alive]
    connection.wait([s for s in sentinels if s is not None], _POLL_S)
    if self._killed:
      raise KeyboardInterrupt
    now_s = time.monotonic()
    for node in alive:
      node.trim_log()
      # `_handle_end` of another node may have killed this one meanwhile.
      if node.alive and (status := node.poll()) is not None:
        self._handle_end(node, status, now_s)
    self._restart_server_if_needed()
    for node in self._nodes:
      if node.due_s is not None:
        self._start_if_due(node, node.due_s, now_s)
    self._start_workers()
    if self._shutdown_forced.is_set():
      self._shutdown_forced.clear()
      self._shut_down_nodes()
    if now_s > self._deadline_s:
      alive_names = [node.name for node in self._nodes if node.alive]
      self._log.error(
        "killed, because they did not end: %s", ", ".join(alive_names)
      )
      self._kill_all()
    return any(node.alive or node.due_s is not None for node in self._nodes)

  def _start_node(self, node: node_lib.Node) -> None:
    """Starts a process of a node, or makes its start due again if it fails."""
    self._restart_server_if_needed()
    try:
      node.start()
    except (EOFError, OSError) as error:
      time.sleep(_POLL_S)  # the fork server's end is detected a moment later
      node.due_s = time.monotonic()
      self._restart_server_if_needed(f"{node.name} did not start ({error!r})")
    else:
      self._log.info("%s is process %d", node.name, node.pid)

  def _start_if_due(
    self, node: node_lib.Node, due_s: float, now_s: float
  ) -> None:
    """Restarts a node once its delay is over, or cancels the restart.

    Args:
      node: a node that has ended, and waits for its restart.
      due_s: monotonic seconds at which the restart is due. A stopping run
        restarts the node at once.
      now_s: current monotonic seconds.
    """
    if self._failure is not None or self._can_do_without(node):
      node.due_s = None
    elif now_s >= due_s or self._stopping.is_set():
      self._start_node(node)

  def _start_workers(self) -> None:
    """Starts missing workers up to the target number."""
    target = self._target
    is_ending = self._stopping.is_set() or self._failure is not None
    if target is None or is_ending:
      return
    workers = {node.name: node for node in self._nodes}
    for index in range(target.workers):
      node = workers.get(f"worker/{index}")
      if node is None:
        node = self._make_node(self._make_worker(index, target.workers))
        self._nodes.append(node)
        self._start_node(node)
      elif (
        not node.alive and node.due_s is None and node.ended_at_s < target.at_s
      ):
        node.prepared = self._make_worker(index, target.workers)
        self._start_node(node)

  def _can_do_without(self, node: node_lib.Node) -> bool:
    """Returns whether the run needs no restart of a node that has ended."""
    role, _, index = node.name.partition("/")
    if self._stopping.is_set():
      return not self._policies[role].needed_to_stop
    target = self._target
    return (
      role == "worker" and target is not None and int(index) >= target.workers
    )

  def _restart_server_if_needed(self, problem: str = "") -> None:
    """Restarts the fork server if it has ended; the nodes continue.

    Args:
      problem: text about a node that could not be forked, which counts as a
        failure of the server, too; empty if there is none.
    """
    if how := fork_server.restart_if_ended():
      problem = f"the fork server {how}"
    if not problem:
      return
    self._log.error("%s; the nodes continue", problem)
    self._kill_orphans()
    delay_s = self._server_budget.count_failure(time.monotonic())
    if delay_s is None and self._failure is None:
      line = (
        f"{problem}, more often than config.restarts.budget allows, so no node "
        "can be started: find the cause, and resume the run"
      )
      self._fail(failures.Failure(line, ""))

  def _kill_orphans(self) -> None:
    """Kills the processes that ended nodes left behind."""
    fork_server.kill_orphans([node.pid for node in self._nodes if node.alive])

  def _handle_end(self, node: node_lib.Node, status: int, now_s: float) -> None:
    """Records the end of a node's process, and restarts the node if it failed.

    Args:
      node: the node.
      status: exit status of the process.
      now_s: current monotonic seconds.
    """
    failure = node.record_end(status)
    self._kill_orphans()
    if failure is None:
      self._log.info("%s has ended", node.name)
      if node.prepared.role == "control":
        self._set_deadline()
      return
    self._log.error("%s", failure.line)
    if self._failure is not None or self._can_do_without(node):
      return
    if self._stopping.is_set():
      self._fail(failure)
    else:
      self._schedule_restart(node, failure, now_s)

  def _schedule_restart(
    self, node: node_lib.Node, failure: failures.Failure, now_s: float
  ) -> None:
    """Schedules the restart of a failed node, and of nodes that go with it."""
    delay_s = node.record_failure(failure, now_s)
    if delay_s is None:
      self._fail(node.first_failure)
      return
    self._log.info("%s will be restarted in %.1f s", node.name, delay_s)
    node.due_s = now_s + delay_s
    for other in self._nodes:
      if (
        other.prepared.role in self._policies[node.prepared.role].restarted_with
      ):
        self._log.info("%s will be restarted with it", other.name)
        other.kill()
        other.due_s = node.due_s

  def _fail(self, failure: failures.Failure) -> None:
    """Makes the run fail: all nodes end, and `run` raises the failure."""
    self._failure = failure
    self._shut_down_nodes()

  def _shut_down_nodes(self) -> None:
    """Sends each node the signal to save and end, without the stop order."""
    self._set_deadline()
    for node in self._nodes:
      if node.alive:
        with contextlib.suppress(ProcessLookupError):
          os.kill(node.pid, signals.SHUTDOWN_SIGNAL)

  def _set_deadline(self) -> None:
    """Makes `_step` kill all nodes that are alive after a grace period."""
    self._deadline_s = min(self._deadline_s, time.monotonic() + _GRACE_S)

  def _kill_all(self) -> None:
    """Kills all nodes at once, and waits for their ends."""
    for wait in (False, True):  # kills all before it waits for the first
      for node in self._nodes:
        node.kill(wait)
