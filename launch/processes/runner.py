"""Runner: runs the nodes of one machine, from their start to their end.

It starts them, restarts those without a state, and ends all of them in order.
"""

import pathlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from slipway.launch.control import run_control, stages
from slipway.launch.processes import (
  crew,
  descendants,
  failures,
  fork_server,
  forking,
  node_process,
  signals,
)
from slipway.launch.processes import node as node_lib

# Roles with a state: if one of their nodes dies, the run is resumed from its
# newest snapshot.
_STATEFUL = frozenset({"trainer", "replay"})

# Seconds from its start that a process has in any case, as it may be importing.
_START_S = 15.0
# Longest wait in seconds for the end of a node before the runner checks its
# other work.
_WAIT_S = 0.05


class Runner(crew.Crew):
  """Runs nodes as processes of this machine; restarts those without a state."""

  def __init__(
    self,
    server: fork_server.ForkServer,
    nodes: Sequence[node_process.PreparedNode],
    expected: Mapping[str, int],
    logs: pathlib.Path,
    budget: int,
    period_s: float,
    make_worker: Callable[[int, int], node_process.PreparedNode],
  ):
    """Makes a runner without starting nodes.

    Args:
      server: forks the nodes; it is started again if it has ended.
      nodes: the nodes to run, in the order of starting.
      expected: number of nodes of each role in the whole run.
      logs: folder of the nodes' logs and the runner's event log.
      budget: number of restarts that each node may have within a period.
      period_s: seconds after which a failure no longer counts.
      make_worker: function that prepares a worker for `set_workers`, called
        with the worker's index and the number of workers.
    """
    super().__init__(logs / "runner", expected)
    self._server = server
    self._make_node = lambda prepared: node_lib.Node(
      prepared, logs, failures.RestartBudget(budget, period_s)
    )
    self._make_worker = make_worker
    self._nodes = [self._make_node(prepared) for prepared in nodes]
    self._started = False
    # None until `set_workers` is called: then the initial workers are kept.
    self._workers: int | None = None
    self._last_stage = 0

  def stop(self, is_quick: bool = False, last_stage: int = stages.LAST) -> None:
    """Makes the nodes save and end, stage by stage; see `Crew.stop`.

    Args:
      last_stage: index of the last of `stages.STAGES` whose nodes may end now;
        a later call can only raise it. A machine of several waits for the
        others' nodes.
    """
    self._last_stage = max(self._last_stage, last_stage)
    super().stop(is_quick)

  @property
  def alive_roles(self) -> Collection[str]:
    """Roles of the nodes that have not ended."""
    return {node.role for node in self._nodes if node.alive}

  @property
  def _pids(self) -> dict[str, int]:
    nodes = {node.name: node.pid for node in [*self._nodes] if node.alive}
    return super()._pids | nodes

  def follow(self, control: run_control.RunControl) -> None:
    """Starts and ends workers as the user wants."""
    self.set_workers(control.workers_target)

  def set_workers(self, count: int) -> None:
    """Sets the number of workers, whose indices are 0 to `count - 1`.

    Missing workers are started, and those above are ended.
    """
    self._workers = count

  @property
  def restarts(self) -> dict[str, int]:
    """Number of restarts by node name, without nodes that never restarted."""
    return {
      node.name: node.starts - 1 for node in self._nodes if node.starts > 1
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

  def _step(self) -> bool:
    """Waits up to 0.05 s for the end of a node, and handles what happened."""
    try:
      if not self._started:
        self._server.ensure_running()
        if self._server.is_ready(_WAIT_S):
          self._started = True
          for node in self._nodes:
            self._start_node(node)
        return True
      ends = self._server.wait(_WAIT_S)
      now_s = time.monotonic()
      if ends:
        self._handle_ends(ends, now_s)
      for node in self._nodes:
        if node.alive:
          node.trim_log()
      if self._stopping:
        self._stop_stage(now_s)
      else:
        self._start_missing(now_s)
      return any(n.alive or n.restart_due_s is not None for n in self._nodes)
    except fork_server.EndedError as error:
      self._lose(failures.Failure(str(error)))
      return False

  def _start_node(self, node: node_lib.Node) -> None:
    """Starts a process of a node."""
    node.start(self._server)
    self._log.info("%s is process %d", node.name, node.pid)

  def _start_missing(self, now_s: float) -> None:
    """Starts the nodes whose restart is due, and matches `set_workers`."""
    workers = {n.name: n for n in self._nodes if n.role == "worker"}
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
    stage = stages.find_stage(node.role for node in alive)
    if stage > self._last_stage:
      return
    for node in alive:
      if node.role in stages.STAGES[stage]:
        self._end_node(node, now_s)

  def _end_node(self, node: node_lib.Node, now_s: float) -> None:
    """Sends a node the shutdown signal, and kills it once its time is over."""
    if node.signalled_at_s is None:
      node.signalled_at_s = now_s
      node.send_signal(signals.SHUTDOWN_SIGNAL)
      return
    stage = stages.find_stage([node.role])
    allowed_s = stages.grace_s(stage, self._is_quick)
    if now_s < max(
      node.signalled_at_s + allowed_s, node.started_at_s + _START_S
    ):
      return
    line = f"{node.name} was killed, because it did not end in {allowed_s} s"
    self._kill([node])
    if node.role == "trainer":
      line += "; the run's last snapshot may be missing"
      self._fail(failures.Failure(line))
    else:
      self._log.error("%s", line)

  def _handle_ends(self, ends: Sequence[forking.NodeEnd], now_s: float) -> None:
    """Records the ends of processes, and kills what these have left."""
    ended = {end.pid: end for end in ends}
    nodes = [n for n in self._nodes if n.alive and n.pid in ended]
    failed = [node.record_end(ended[node.pid]) for node in nodes]
    descendants.kill_marked({node.mark for node in nodes}, ended)
    for node, failure in zip(nodes, failed, strict=True):
      if failure is None:
        self._log.info("%s has ended", node.name)
      elif node.role in _STATEFUL:
        self._lose(failure)
      elif self._stopping or node.signalled_at_s is not None:
        self._log.error("%s", failure.line)
      elif (delay_s := node.budget.record(failure, now_s)) is None:
        self._fail(node.budget.first)
      else:
        self._log.error("%s", failure.line)
        self._log.info("%s will be restarted in %.1f s", node.name, delay_s)
        node.restart_due_s = now_s + delay_s
        self.first_failures.setdefault(node.role, failure.line)

  def _kill_all(self) -> None:
    """Kills all nodes at once, with what they have left, and waits for them."""
    for node in self._nodes:
      node.restart_due_s = None
    self._kill([node for node in self._nodes if node.alive])

  def _kill(self, nodes: Sequence[node_lib.Node]) -> None:
    """Kills nodes with what they have left, and waits up to 5 s for the end."""
    # A process that does not end, because it waits for a disk, for example, is
    # logged and then ignored.
    descendants.kill_marked({x.mark for x in nodes}, {x.pid for x in nodes})
    for node in nodes:
      node.alive = False
