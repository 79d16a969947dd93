"""The runner: starts a machine's node processes, and starts them again."""

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
  node_process,
  payloads,
)
from slipway.launch.processes import node as node_lib
from slipway.launch.processes import restarts as restarts_lib
from slipway.launch.runs import event_log

_LOOK_S = 0.2
# Seconds for the others to end by themselves once one has failed for good, or
# the control node has ended.
_GRACE_S = 8.0


class _Policy(typing.NamedTuple):
  """What a role's failure means, besides that its node is started again.

  Attributes:
    takes_along: roles whose nodes can't go on without it: they are killed, and
      started again with it.
    needed_to_stop: whether a run that is stopping fails without it; without
      another it stops as it would have.
  """

  takes_along: tuple[str, ...] = ()
  needed_to_stop: bool = False


_POLICIES = {
  "control": _Policy(needed_to_stop=True),
  # A table and a learner go on from one snapshot.
  "replay": _Policy(takes_along=("trainer",), needed_to_stop=True),
  "trainer": _Policy(needed_to_stop=True),
  "proxy": _Policy(),
  "worker": _Policy(),
  "evaluator": _Policy(),
}


class _Asked(typing.NamedTuple):
  """How many workers a run was asked to have, and when that was so."""

  workers: int
  at_s: float  # monotonic


class Runner:
  """Runs nodes as processes of this machine until all have ended.

  They are forked from one server that has imported what they need, and end when
  this process ends, however it does.
  """

  def __init__(
    self,
    nodes: Sequence[payloads.Payload],
    logs: pathlib.Path,
    budget: int,
    period_s: float,
    make_worker: Callable[[int, int], payloads.Payload],
    shards: int = 1,
  ):
    """Starts nothing.

    Args:
      nodes: to run; where one takes others along, before those.
      logs: folder of their logs, and of the runner's own.
      budget: restarts of one node within a period.
      period_s: seconds after which a failure is forgiven.
      make_worker: makes the worker of an index where there are so many, for
        `set_workers`.
      shards: replay servers of the run; the others go on without one of
        several.
    """
    self._policies = dict(_POLICIES)
    if shards > 1:
      self._policies["replay"] = _Policy()
    self._make_node = lambda payload: node_lib.Node(
      payload, logs, restarts_lib.Restarts(budget, period_s)
    )
    self._make_worker = make_worker
    self._nodes = [self._make_node(payload) for payload in nodes]
    self._server_restarts = restarts_lib.Restarts(budget, period_s)
    self._log = event_log.EventLog(logs / "runner")
    self._asked: _Asked | None = None  # None: those that it was made with
    self._stopping = threading.Event()
    self._killed = False
    self._hurried = threading.Event()
    self._failure: failures.Failure | None = None
    self._deadline_s = float("inf")

  def run(self) -> None:
    """Starts all nodes and returns when all have ended.

    Raises:
      failures.NodeFailedError: a node failed for good.
      KeyboardInterrupt: `kill_at_once` was called; no node is left.
    """
    try:
      for node in self._nodes:
        self._start(node)
      while self._look():
        pass
    finally:
      self._kill()
    if self._failure is not None:
      raise failures.NodeFailedError(self._failure)

  def stop_restarting(self) -> None:
    """Says that the run ends: a node that ends is not started again."""
    self._stopping.set()

  def hurry(self) -> None:
    """Ends the run: each node saves what it has, in whatever order."""
    self._stopping.set()
    self._hurried.set()

  def set_workers(self, count: int, at_s: float) -> None:
    """Says how many workers there should be; to be said again and again.

    Those that are missing are started. Those of a higher index are told by the
    control node to end, and are not started again.

    Args:
      count: of workers, from index 0.
      at_s: monotonic seconds at which this was so, and the run not stopping: a
        worker that ended later may have done so because the run stops.
    """
    self._asked = _Asked(count, at_s)

  def kill_at_once(self) -> None:
    """Ends all nodes, and `run`: to be called by a signal's handler.

    Raises:
      KeyboardInterrupt: there is no node yet: what `run` waits for takes long.
    """
    again, self._killed = self._killed, True
    if not again and not any(node.lives for node in self._nodes):
      raise KeyboardInterrupt

  @property
  def restarts(self) -> dict[str, int]:
    """How often each node was started again, of those that were."""
    return {node.name: node.lives - 1 for node in self._nodes if node.lives > 1}

  @property
  def last_error(self) -> failures.Failure | None:
    """The first error of a node that was not started again; None: none.

    Such as that of an environment's `close` at the end of the run.
    """
    return next(
      (
        node.failure
        for node in self._nodes
        if node.failure and node.failure.whole
      ),
      None,
    )

  def _look(self) -> bool:
    """Waits for something to happen, and acts on it; False: all have ended."""
    alive = [node for node in self._nodes if node.alive]
    sentinels = [node.sentinel for node in alive]
    connection.wait([s for s in sentinels if s is not None], _LOOK_S)
    if self._killed:
      raise KeyboardInterrupt
    now_s = time.monotonic()
    for node in alive:
      node.trim_log()
      # Another's end may have been its own.
      if node.alive and (status := node.poll()) is not None:
        self._on_end(node, status, now_s)
    self._restart_server()
    for node in self._nodes:
      if node.due_s is not None:
        self._start_if_due(node, node.due_s, now_s)
    self._start_workers()
    if self._hurried.is_set():
      self._hurried.clear()
      self._end_soon()
    if now_s > self._deadline_s:
      late = [node.name for node in self._nodes if node.alive]
      self._log.error("killed, since they did not end: %s", ", ".join(late))
      self._kill()
    return any(node.alive or node.due_s is not None for node in self._nodes)

  def _start(self, node: node_lib.Node) -> None:
    self._restart_server()
    try:
      node.start()
    except (EOFError, OSError) as error:
      time.sleep(_LOOK_S)  # the fork server's end is known a moment later
      node.due_s = time.monotonic()
      self._restart_server(f"{node.name} did not start ({error!r})")
    else:
      self._log.info("%s is process %d", node.name, node.pid)

  def _start_if_due(
    self, node: node_lib.Node, due_s: float, now_s: float
  ) -> None:
    if self._failure is not None or self._can_do_without(node):
      node.due_s = None
    elif now_s >= due_s or self._stopping.is_set():
      self._start(node)

  def _start_workers(self) -> None:
    """Starts the workers that are asked for and were removed, or never were."""
    asked = self._asked
    ending = self._stopping.is_set() or self._failure is not None
    if asked is None or ending:
      return
    workers = {node.name: node for node in self._nodes}
    for index in range(asked.workers):
      node = workers.get(f"worker/{index}")
      if node is None:
        node = self._make_node(self._make_worker(index, asked.workers))
        self._nodes.append(node)
        self._start(node)
      elif (
        not node.alive and node.due_s is None and node.ended_at_s < asked.at_s
      ):
        node.payload = self._make_worker(index, asked.workers)
        self._start(node)

  def _can_do_without(self, node: node_lib.Node) -> bool:
    """Whether the run is as it should be although this node has ended."""
    role, _, index = node.name.partition("/")
    if self._stopping.is_set():
      return not self._policies[role].needed_to_stop
    asked = self._asked
    return (
      role == "worker" and asked is not None and int(index) >= asked.workers
    )

  def _restart_server(self, problem: str = "") -> None:
    """Starts the fork server again if it has ended; the nodes live on.

    Args:
      problem: that there is otherwise, which counts like an end of the server.
    """
    if how := fork_server.restart_if_ended():
      problem = f"the fork server {how}"
    if not problem:
      return
    self._log.error("%s; the nodes continue", problem)
    self._kill_left()
    delay_s = self._server_restarts.delay_s(time.monotonic())
    if delay_s is None and self._failure is None:
      line = (
        f"{problem}, more often than config.restarts.budget allows, so no node "
        "can be started: find the cause, and resume the run"
      )
      self._fail(failures.Failure(line, ""))

  def _kill_left(self) -> None:
    fork_server.kill_left([node.pid for node in self._nodes if node.alive])

  def _on_end(self, node: node_lib.Node, status: int, now_s: float) -> None:
    failure = node.take_end(status)
    self._kill_left()
    if failure is None:
      self._log.info("%s has ended", node.name)
      if node.payload.role == "control":
        self._set_deadline()
      return
    self._log.error("%s", failure.line)
    if self._failure is not None or self._can_do_without(node):
      return
    if self._stopping.is_set():
      self._fail(failure)
    else:
      self._restart(node, failure, now_s)

  def _restart(
    self, node: node_lib.Node, failure: failures.Failure, now_s: float
  ) -> None:
    delay_s = node.restart_delay_s(failure, now_s)
    if delay_s is None:
      self._fail(node.first_failure)
      return
    self._log.info("%s is started again in %.1f s", node.name, delay_s)
    node.due_s = now_s + delay_s
    for other in self._nodes:
      if other.payload.role in self._policies[node.payload.role].takes_along:
        self._log.info("%s is started again with it", other.name)
        other.kill()
        other.due_s = node.due_s

  def _fail(self, failure: failures.Failure) -> None:
    self._failure = failure
    self._end_soon()

  def _end_soon(self) -> None:
    """Tells each node to save what it has and end, in whatever order."""
    self._set_deadline()
    for node in self._nodes:
      if node.alive:
        with contextlib.suppress(ProcessLookupError):
          os.kill(node.pid, node_process.HURRY)

  def _set_deadline(self) -> None:
    self._deadline_s = min(self._deadline_s, time.monotonic() + _GRACE_S)

  def _kill(self) -> None:
    """Ends all nodes at once."""
    for wait in (False, True):  # all of them, before the first is waited for
      for node in self._nodes:
        node.kill(wait)
