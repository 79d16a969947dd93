"""The runner: starts a machine's node processes, and starts them again."""

import contextlib
import dataclasses
import logging
import multiprocessing
import os
import pathlib
import signal
import threading
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection, forkserver, resource_tracker, util
from unittest import mock

from launch import failures, node_process, payloads
from launch import restarts as restarts_lib

# What a node of these roles holds is elsewhere too, or is soon made again.
RESTARTED = ("worker", "proxy", "evaluator")

_CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["__main__", "launch.preload"]
_LOOK_S = 0.2
# Seconds for the others to end by themselves once one has failed for good, or
# the control node has ended.
_GRACE_S = 8.0


@dataclasses.dataclass
class _Node:
  """One node and its process, if it has one now."""

  payload: payloads.Payload
  restarts: restarts_lib.Restarts
  log: pathlib.Path
  log_start: int = 0  # byte at which the log of its newest life begins
  process: typing.Any = None
  due_s: float | None = None  # monotonic, of its restart
  first_failure: str = ""


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
  ):
    """Starts nothing.

    Args:
      nodes: to run.
      logs: folder of their logs, and of the runner's own.
      budget: restarts of one node within a period.
      period_s: seconds after which a failure is forgiven.
    """
    self._nodes = [
      _Node(
        payload,
        restarts_lib.Restarts(budget, period_s),
        logs.resolve() / payload.name,
      )
      for payload in nodes
    ]
    self._log = _open_log(logs / "runner")
    self._stopping = threading.Event()
    self._failure: str | None = None
    self._deadline_s = float("inf")

  def run(self) -> None:
    """Starts all nodes and returns when all have ended.

    Raises:
      RuntimeError: a node failed for good; in one line.
    """
    try:
      for node in self._nodes:
        self._start(node)
      while self._look():
        pass
    finally:
      self.kill()
      _stop_fork_server()
      for handler in self._log.handlers:
        handler.close()
    if self._failure is not None:
      raise RuntimeError(self._failure)

  def stop_restarting(self) -> None:
    """Says that the run ends: a node that ends is not started again."""
    self._stopping.set()

  @property
  def restarts(self) -> dict[str, int]:
    """How often each node was started again, of those that were."""
    return {
      node.payload.name: node.restarts.count
      for node in self._nodes
      if node.restarts.count
    }

  def kill(self) -> None:
    """Ends all nodes at once, by SIGKILL."""
    for node in self._nodes:
      if node.process is not None:
        node.process.kill()
        node.process.join()
        node.process = None

  def _look(self) -> bool:
    """Waits for something to happen, and acts on it; False: all have ended."""
    alive = [node for node in self._nodes if node.process is not None]
    ended = connection.wait([n.process.sentinel for n in alive], _LOOK_S)
    now_s = time.monotonic()
    for node in alive:
      if node.process.sentinel in ended:
        self._on_end(node, now_s)
    for node in self._nodes:
      if node.due_s is not None and (
        self._stopping.is_set() or self._failure is not None
      ):
        node.due_s = None
      elif node.due_s is not None and now_s >= node.due_s:
        node.due_s = None
        self._start(node)
    if now_s > self._deadline_s:
      late = [n.payload.name for n in self._nodes if n.process is not None]
      self._log.error("killed, since they did not end: %s", ", ".join(late))
      self.kill()
    return any(
      node.process is not None or node.due_s is not None for node in self._nodes
    )

  def _start(self, node: _Node) -> None:
    payload = node.payload
    node.log.parent.mkdir(exist_ok=True)
    node.log.touch()
    node.log_start = node.log.stat().st_size
    node.process = _CONTEXT.Process(
      target=node_process.run,
      args=(payload.function, str(node.log), payload.environment),
      name=payload.name,
    )
    node.process.start()
    self._log.info("%s is process %d", payload.name, node.process.pid)

  def _on_end(self, node: _Node, now_s: float) -> None:
    name, role = node.payload.name, node.payload.role
    node.process.join()
    status, node.process = node.process.exitcode, None
    if status == 0:
      self._log.info("%s has ended", name)
      if role == "control":
        self._hurry()
      return
    failure = failures.explain(name, status, node.log, node.log_start)
    self._log.error("%s", failure)
    node.first_failure = node.first_failure or failure
    if self._failure is not None or (
      self._stopping.is_set() and role in RESTARTED
    ):
      return
    delay_s = node.restarts.delay_s(now_s) if role in RESTARTED else None
    if delay_s is None:
      self._fail(node.first_failure)
    else:
      self._log.info("%s is started again in %.1f s", name, delay_s)
      node.due_s = now_s + delay_s

  def _fail(self, failure: str) -> None:
    """Ends the run: each node saves what it has, in whatever order."""
    self._failure = failure
    self._hurry()
    for node in self._nodes:
      if node.process is not None:
        with contextlib.suppress(ProcessLookupError):
          os.kill(node.process.pid, node_process.HURRY)

  def _hurry(self) -> None:
    self._deadline_s = min(self._deadline_s, time.monotonic() + _GRACE_S)


def start_fork_server(environment: Mapping[str, str]) -> None:
  """Lets the server that nodes are forked from begin to import.

  Args:
    environment: variables of its process, and so of all nodes, besides this
      one's.
  """
  _CONTEXT.set_forkserver_preload(_PRELOADED)
  # First: it lets signals through again, whatever kept them away.
  resource_tracker.ensure_running()
  with mock.patch.dict(os.environ, environment), _signals_kept_away():
    forkserver.ensure_running()


def _stop_fork_server() -> None:
  # Otherwise all that ends or goes a moment after this process does, and is
  # found by who looks.
  forkserver._forkserver._stop()
  resource_tracker._resource_tracker._stop()
  util._run_finalizers()
  multiprocessing.current_process()._config.pop("tempdir", None)


@contextlib.contextmanager
def _signals_kept_away() -> Iterator[None]:
  """Keeps signals from the server and its nodes until they can take them.

  The server ignores a group's signals once it has imported that; a node takes
  `HURRY` once it has a handler.
  """
  numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, node_process.HURRY}
  before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
  try:
    yield
  finally:
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _open_log(path: pathlib.Path) -> logging.Logger:
  log = logging.Logger("runner")
  handler = logging.FileHandler(path)
  handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
  log.addHandler(handler)
  return log
