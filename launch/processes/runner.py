"""Runner: runs the nodes of one machine, from their start to their end.

It starts them, restarts those without a state, and ends all of them in order.
"""

import pathlib
import signal
import time
from collections.abc import Callable, Collection, Sequence
from multiprocessing import connection

from slipway.launch.control import stages
from slipway.launch.processes import (
  failures,
  fork_server,
  prepared_nodes,
  restart_budget,
  signals,
)
from slipway.launch.processes import node as node_lib
from slipway.launch.runs import event_log

# Roles with a state: if one of their nodes dies, the run is resumed from its
# newest snapshot.
_STATEFUL = frozenset({"trainer", "replay"})

# Seconds from its start that a process has in any case, as it may be importing.
_START_S = 15.0
# Longest wait in seconds for the end of a node before the runner checks its
# other work.
_WAIT_S = 0.05


class Runner:
  """Runs nodes as processes of this machine, and restarts those without state.

  The fork server forks the nodes. If this process ends for any reason, the
  nodes end at once. Methods other than `run` may be called in any thread.
  """

  def __init__(
    self,
    nodes: Sequence[prepared_nodes.PreparedNode],
    logs: pathlib.Path,
    budget: int,
    period_s: float,
    make_worker: Callable[[int, int], prepared_nodes.PreparedNode],
  ):
    """Makes a runner without starting nodes.

    Args:
      nodes: the nodes to run, in the order of starting.
      logs: folder of the nodes' logs and the runner's event log.
      budget: number of restarts that each node may have within a period.
      period_s: seconds after which a failure no longer counts.
      make_worker: function that prepares a worker for `set_workers`, called
        with the worker's index and the number of workers.
    """
    self._make_node = lambda prepared: node_lib.Node(
      prepared,
      logs,
      restart_budget.RestartBudget(budget, period_s),
    )
    self._make_worker = make_worker
    self._nodes = [self._make_node(prepared) for prepared in nodes]
    self._log = event_log.EventLog(logs / "runner")
    # None until `set_workers` is called: then the initial workers are kept.
    self._workers: int | None = None
    self._stopping = self._is_quick = False
    self._last_stage = 0
    self._kill_requested = False
    self._failure: failures.Failure | None = None

  def run(self) -> None:
    """Starts all nodes, and returns when all have ended.

    Raises:
      failures.StateLostError: a node with a state, or the fork server, has
        died, and all nodes are killed.
      failures.NodeFailedError: a node used up its restart budget, or failed as
        the run was stopping.
      KeyboardInterrupt: `kill_at_once` was called, and all nodes are killed.
    """
    try:
      fork_server.start_if_ended()
      for node in self._nodes:
        self._start_node(node)
      while any(n.alive or n.restart_due_s is not None for n in self._nodes):
        self._step()
    finally:
      self._kill_all()
    if self._failure is not None:
      raise failures.NodeFailedError(self._failure)

  def stop(self, is_quick: bool = False, last_stage: int = stages.LAST) -> None:
    """Makes the nodes save and end, stage by stage; none is restarted.

    Args:
      is_quick: whether the last snapshot may take only seconds, as after a
        signal. A later call can only shorten the time.
      last_stage: index of the last of `stages.STAGES` whose nodes may end now;
        a later call can only raise it. A machine of several waits for the
        others' nodes.
    """
    self._is_quick |= is_quick
    self._last_stage = max(self._last_stage, last_stage)
    self._stopping = True

  @property
  def has_failed(self) -> bool:
    """Whether a node has failed for good, so that the run stops."""
    return self._failure is not None

  @property
  def alive_roles(self) -> Collection[str]:
    """Roles of the nodes that have not ended."""
    return {node.prepared.role for node in self._nodes if node.alive}

  def set_workers(self, count: int) -> None:
    """Sets the number of workers, whose indices are 0 to `count - 1`.

    Missing workers are started, and those above are ended.
    """
    self._workers = count

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
    found = (node.failure for node in self._nodes)
    return next((x for x in found if x and x.traceback), None)

  def _step(self) -> None:
    """Waits up to 0.05 s for the end of a node, and handles what happened."""
    alive = [node for node in self._nodes if node.alive]
    connection.wait([node.sentinel for node in alive], _WAIT_S)
    if self._kill_requested:
      raise signals.SecondInterrupt
    self._check_fork_server()
    now_s = time.monotonic()
    for node in alive:
      node.trim_log()
      if (status := node.poll()) is not None:
        self._handle_end(node, status, now_s)
    if self._stopping:
      self._stop_stage(now_s)
    else:
      self._start_missing(now_s)

  def _start_node(self, node: node_lib.Node) -> None:
    """Starts a process of a node, which the fork server forks."""
    try:
      node.start()
    except (EOFError, OSError) as error:
      self._check_fork_server(must_end=True)
      raise RuntimeError(f"{node.name} can't be started: {error!r}") from error
    self._log.info("%s is process %d", node.name, node.pid)

  def _start_missing(self, now_s: float) -> None:
    """Starts the nodes whose restart is due, and matches `set_workers`."""
    workers = {n.name: n for n in self._nodes if n.prepared.role == "worker"}
    if self._workers is not None:
      wanted = [f"worker/{index}" for index in range(self._workers)]
      for index, name in enumerate(wanted):
        node = workers.get(name)
        if node is None or not (node.alive or node.restart_due_s is not None):
          prepared = self._make_worker(index, self._workers)
          if node is None:
            node = self._make_node(prepared)
            self._nodes.append(node)
          node.prepared, node.restart_due_s = prepared, now_s
      for name in workers.keys() - wanted:
        workers[name].restart_due_s = None
        if workers[name].alive:
          self._end_node(workers[name], now_s)
    for node in self._nodes:
      if node.restart_due_s is not None and now_s >= node.restart_due_s:
        self._start_node(node)

  def _stop_stage(self, now_s: float) -> None:
    """Ends the nodes of the first stage that has live ones."""
    alive = [node for node in self._nodes if node.alive]
    for node in self._nodes:
      node.restart_due_s = None
    stage = stages.find_stage(node.prepared.role for node in alive)
    if stage > self._last_stage:
      return
    for node in alive:
      if node.prepared.role in stages.STAGES[stage]:
        self._end_node(node, now_s)

  def _end_node(self, node: node_lib.Node, now_s: float) -> None:
    """Sends a node the shutdown signal, and kills it once its time is over."""
    if node.signalled_at_s is None:
      node.signalled_at_s = now_s
      node.send_signal(signals.SHUTDOWN_SIGNAL)
      return
    role = node.prepared.role
    allowed_s = stages.grace_s(stages.find_stage([role]), self._is_quick)
    if now_s < max(
      node.signalled_at_s + allowed_s, node.started_at_s + _START_S
    ):
      return
    line = f"{node.name} was killed, because it did not end in {allowed_s} s"
    self._log.error("%s", line)
    node.kill()
    if role == "trainer":
      line += "; the run's last snapshot may be missing"
      self._failure = self._failure or failures.Failure(line, "")

  def _check_fork_server(self, must_end: bool = False) -> None:
    """Raises StateLostError if the fork server has ended.

    Nodes can then neither be started nor be watched any more.
    """
    if how := fork_server.find_end(must_end):
      self._log.error("the fork server %s", how)
      self._lose(failures.Failure(f"the fork server {how}", ""))

  def _handle_end(self, node: node_lib.Node, status: int, now_s: float) -> None:
    """Records the end of a node's process, and what follows from a failure."""
    if status == fork_server.LOST_STATUS:
      self._check_fork_server(must_end=True)
    failure = node.record_end(status)
    fork_server.kill_orphans([node.pid for node in self._nodes if node.alive])
    if failure is None:
      self._log.info("%s has ended", node.name)
      return
    self._log.error("%s", failure.line)
    if node.prepared.role in _STATEFUL:
      self._lose(failure)
    elif not self._stopping and node.signalled_at_s is None:
      delay_s = node.failures.record(failure, now_s)
      if delay_s is None:
        self._failure = node.failures.first
        self.stop(is_quick=True)
      else:
        self._log.info("%s will be restarted in %.1f s", node.name, delay_s)
        node.restart_due_s = now_s + delay_s

  def _lose(self, failure: failures.Failure) -> None:
    """Handles the loss of a state: the run is resumed, or fails if it stops."""
    if not self._stopping:
      raise failures.StateLostError(failure)
    self._failure = self._failure or failure
    if not fork_server.is_running():
      raise failures.NodeFailedError(self._failure)

  def _kill_all(self) -> None:
    """Kills all nodes at once, with what they have left, and waits for them."""
    alive = [node for node in self._nodes if node.alive]
    for node in alive:
      node.send_signal(signal.SIGKILL)
    for node in alive:
      node.kill()
    for node in self._nodes:
      node.restart_due_s = None
    fork_server.kill_orphans([])
