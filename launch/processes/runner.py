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

# Longest wait in seconds for the end of a node before the runner checks its
# other work.
_WAIT_S = 0.2
# Seconds that nodes may take to end once the run has stopped or failed, or a
# shutdown was forced. After that, the nodes are killed.
_GRACE_S = 8.0


class _FailurePolicy(typing.NamedTuple):
  """How a node's failure affects other nodes, and a run that is stopping.

  Attributes:
    also_restarted: other roles, whose nodes are killed and restarted together
      with the failed node.
    needed_to_stop: whether the failure makes a run fail that is already
      stopping, because the node has results to save.
  """

  also_restarted: tuple[str, ...] = ()
  needed_to_stop: bool = False


# Failure policy of each role in a run with one replay server.
_POLICIES = {
  # Table and learner must restore the same snapshot, so they restart together.
  "replay": _FailurePolicy(also_restarted=("trainer",), needed_to_stop=True),
  "trainer": _FailurePolicy(needed_to_stop=True),
  "proxy": _FailurePolicy(),
  "worker": _FailurePolicy(),
  "evaluator": _FailurePolicy(),
}


class _WorkersTarget(typing.NamedTuple):
  """The number of workers that should run.

  Attributes:
    workers: number of workers; their indices are 0 to `workers - 1`.
    read_at_s: monotonic seconds at which the number was read.
  """

  workers: int
  read_at_s: float


class Runner:
  """Runs nodes as processes of this machine, and restarts those that fail.

  The fork server forks the nodes. If this process ends for any reason, the
  nodes end at once.
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
      budget: number of restarts that each node may have within a period.
      period_s: seconds after which a failure no longer counts.
      make_worker: function that prepares a worker for `set_workers`, called
        with the worker's index and the number of workers.
      shards: number of replay servers in the run; if there are several, the
        trainer continues without a failed server.
    """
    self._policies = dict(_POLICIES)
    if shards > 1:
      self._policies["replay"] = _FailurePolicy()
    self._make_node = lambda prepared: node_lib.Node(
      prepared,
      logs,
      restart_budget.RestartBudget(budget, period_s),
    )
    self._make_worker = make_worker
    self._nodes = [self._make_node(prepared) for prepared in nodes]
    self._fork_server_budget = restart_budget.RestartBudget(budget, period_s)
    self._log = event_log.EventLog(logs / "runner")
    # None until `set_workers` is called: then the initial workers are kept.
    self._target: _WorkersTarget | None = None
    self._stopping = threading.Event()
    self._kill_requested = False
    self._shutdown_forced = threading.Event()
    self._failure: failures.Failure | None = None
    self._deadline_s = float("inf")

  def run(self) -> None:
    """Starts all nodes, and returns when all have ended.

    Raises:
      failures.NodeFailedError: a node used up its restart budget, or failed as
        the run was stopping.
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
    """Restarts no node from now on, except those that the stop still needs.

    To be called when the run is stopping.
    """
    self._stopping.set()

  def force_shutdown(self) -> None:
    """Makes each node save its state and end now, without the stop order."""
    self._stopping.set()
    self._shutdown_forced.set()

  def end_soon(self) -> None:
    """Kills the nodes that have not ended in 8 s from now."""
    self._set_deadline()

  @property
  def has_failed(self) -> bool:
    """Whether a node has used up its restart budget, so that the run fails."""
    return self._failure is not None

  def set_workers(self, count: int, read_at_s: float) -> None:
    """Sets the target number of workers; to be called periodically.

    Missing workers are started. The control stops workers with higher indices,
    and the runner does not restart them.

    Args:
      count: number of workers; their indices are 0 to `count - 1`.
      read_at_s: monotonic seconds at which the number was read, while the run
        was not stopping. A worker that has ended after this time is not started
        again, because the run may be stopping by now.
    """
    self._target = _WorkersTarget(count, read_at_s)

  def kill_at_once(self) -> None:
    """Makes `run` kill all nodes and raise KeyboardInterrupt.

    A signal handler calls this method in the thread of `run`. While no node has
    been started, `run` does not check for this request. Then the first call
    raises KeyboardInterrupt in that thread.

    Raises:
      KeyboardInterrupt: this is the first call, and no node has been started.
    """
    was_called_before, self._kill_requested = self._kill_requested, True
    has_started = any(node.incarnations for node in self._nodes)
    if not was_called_before and not has_started:
      raise signals.SecondInterrupt

  @property
  def restarts(self) -> dict[str, int]:
    """Number of restarts by node name, without nodes that never restarted."""
    return {
      node.name: node.incarnations - 1
      for node in self._nodes
      if node.incarnations > 1
    }

  @property
  def last_error(self) -> failures.Failure | None:
    """Failure with a traceback that ended a node's last process, or None.

    An example is an error in an environment's `close` at the end of the run. If
    several nodes have failed, it is the failure of the first node in the order
    of starting.
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
    """Waits up to 0.2 s for the end of a node, and handles what happened.

    It restarts failed nodes and the fork server, and starts missing workers.
    If a shutdown was forced, it makes all nodes end. It kills nodes that are
    alive after the deadline.

    Returns:
      Whether any node is alive or will be restarted.

    Raises:
      signals.SecondInterrupt: `kill_at_once` was called.
    """
    alive = [node for node in self._nodes if node.alive]
    sentinels = [node.sentinel for node in alive]
    connection.wait([s for s in sentinels if s is not None], _WAIT_S)
    if self._kill_requested:
      raise signals.SecondInterrupt
    now_s = time.monotonic()
    for node in alive:
      node.trim_log()
      # `_handle_end` of another node may have killed this one meanwhile.
      if node.alive and (status := node.poll()) is not None:
        self._handle_end(node, status, now_s)
    self._restart_fork_server_if_needed()
    for node in self._nodes:
      if node.restart_due_s is not None:
        self._start_if_due(node, node.restart_due_s, now_s)
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
    return any(
      node.alive or node.restart_due_s is not None for node in self._nodes
    )

  def _start_node(self, node: node_lib.Node) -> None:
    """Starts a process of a node; if that fails, schedules another attempt."""
    self._restart_fork_server_if_needed()
    try:
      node.start()
    except (EOFError, OSError) as error:
      time.sleep(_WAIT_S)  # the fork server's end is detected a moment later
      node.restart_due_s = time.monotonic()
      self._restart_fork_server_if_needed(
        f"{node.name} did not start ({error!r})"
      )
    else:
      self._log.info("%s is process %d", node.name, node.pid)

  def _start_if_due(
    self, node: node_lib.Node, restart_due_s: float, now_s: float
  ) -> None:
    """Restarts a node once its delay is over, or cancels the restart.

    Args:
      node: a node that has ended, and whose restart is scheduled.
      restart_due_s: monotonic seconds of the restart. If the run is stopping,
        the node is restarted at once.
      now_s: current monotonic seconds.
    """
    if self._failure is not None or self._can_do_without(node):
      node.restart_due_s = None
    elif now_s >= restart_due_s or self._stopping.is_set():
      self._start_node(node)

  def _start_workers(self) -> None:
    """Starts workers with indices below the target number that do not run."""
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
        not node.alive
        and node.restart_due_s is None
        and node.ended_at_s < target.read_at_s
      ):
        node.prepared = self._make_worker(index, target.workers)
        self._start_node(node)

  def _can_do_without(self, node: node_lib.Node) -> bool:
    """Returns whether the run does not need a node that has ended.

    A stopping run only needs nodes that have results to save. Before that, it
    needs all nodes except workers above the target number.
    """
    role, _, index = node.name.partition("/")
    if self._stopping.is_set():
      return not self._policies[role].needed_to_stop
    target = self._target
    return (
      role == "worker" and target is not None and int(index) >= target.workers
    )

  def _restart_fork_server_if_needed(self, problem: str = "") -> None:
    """Restarts the fork server if its process has ended; the nodes continue.

    If the fork server fails more often than a node's restart budget allows, the
    run fails.

    Args:
      problem: text about a node that could not be forked, which also counts as
        a failure of the fork server; empty if there is no such node.
    """
    if how := fork_server.restart_if_ended():
      problem = f"the fork server {how}"
    if not problem:
      return
    self._log.error("%s; the nodes continue", problem)
    self._kill_orphans()
    delay_s = self._fork_server_budget.count_failure(time.monotonic())
    if delay_s is None and self._failure is None:
      line = (
        f"{problem}, more often than config.restarts.budget allows, so no node "
        "can be started: find the cause, and resume the run"
      )
      self._fail(failures.Failure(line, ""))

  def _kill_orphans(self) -> None:
    """Kills the processes that ended nodes have left behind."""
    fork_server.kill_orphans([node.pid for node in self._nodes if node.alive])

  def _handle_end(self, node: node_lib.Node, status: int, now_s: float) -> None:
    """Records the end of a node's process; schedules a restart after a failure.

    If the run is stopping and still needs the node, the run fails instead.

    Args:
      node: the node whose process has ended.
      status: exit status of the process.
      now_s: current monotonic seconds.
    """
    failure = node.record_end(status)
    self._kill_orphans()
    if failure is None:
      self._log.info("%s has ended", node.name)
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
    """Schedules the restart of a failed node within its restart budget.

    By the failure policy of its role, other nodes are killed and restarted with
    it. If the budget is used up, the run fails.

    Args:
      node: the node that has failed.
      failure: the failure of the node's process.
      now_s: current monotonic seconds.
    """
    delay_s = node.record_failure(failure, now_s)
    if delay_s is None:
      self._fail(node.first_failure)
      return
    self._log.info("%s will be restarted in %.1f s", node.name, delay_s)
    node.restart_due_s = now_s + delay_s
    for other in self._nodes:
      if (
        other.prepared.role in self._policies[node.prepared.role].also_restarted
      ):
        self._log.info("%s will be restarted with it", other.name)
        other.kill()
        other.restart_due_s = node.restart_due_s

  def _fail(self, failure: failures.Failure) -> None:
    """Makes the run fail: all nodes shut down, and `run` raises the failure."""
    self._failure = failure
    self._shut_down_nodes()

  def _shut_down_nodes(self) -> None:
    """Sends the shutdown signal to each node, and sets the deadline.

    Nodes that are alive after the deadline are killed.
    """
    self._set_deadline()
    for node in self._nodes:
      if node.alive:
        with contextlib.suppress(ProcessLookupError):
          os.kill(node.pid, signals.SHUTDOWN_SIGNAL)

  def _set_deadline(self) -> None:
    """Sets the time after which `_step` kills all live nodes to 8 s from now.

    An earlier deadline stays in force.
    """
    self._deadline_s = min(self._deadline_s, time.monotonic() + _GRACE_S)

  def _kill_all(self) -> None:
    """Kills all nodes at once, and waits for their ends."""
    for wait in (False, True):  # kills all before it waits for the first
      for node in self._nodes:
        node.kill(wait)
