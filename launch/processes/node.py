"""Node: starts, signals and kills the successive processes of one node."""

import contextlib
import os
import pathlib
import signal
import time
import typing

from absl import logging

from slipway.launch.processes import (
  failures,
  fork_server,
  node_log,
  node_process,
  prepared_nodes,
  restart_budget,
)

_KILL_TIMEOUT_S = 5.0  # seconds that a killed process may take to end


class Node:
  """A node of this machine, with its current process and its restarts.

  A node has at most one process at a time; a restart replaces an ended process.

  Attributes:
    prepared: the function and environment of the next process.
    incarnations: number of processes that were started so far.
    started_at_s: monotonic seconds of the newest process's start.
    signalled_at_s: monotonic seconds at which the runner sent the shutdown
      signal to the process, or None.
    restart_due_s: monotonic seconds of the next restart, or None if the node
      will not be restarted.
    failure: failure that ended the newest process, or None if that process runs
      or has ended normally.
    failures: the failures of all processes.
  """

  def __init__(
    self,
    prepared: prepared_nodes.PreparedNode,
    logs: pathlib.Path,
    budget: restart_budget.RestartBudget,
  ):
    """Makes a node without starting it.

    Args:
      prepared: the node's function and environment.
      logs: folder of the logs of all nodes.
      budget: the node's restart budget.
    """
    self.prepared = prepared
    self.incarnations = 0
    self.started_at_s = 0.0
    self.signalled_at_s: float | None = None
    self.restart_due_s: float | None = None
    self.failure: failures.Failure | None = None
    self.failures = restart_budget.FailureHistory(budget)
    self._log = node_log.NodeLog(logs.resolve() / prepared.name)
    self._process: typing.Any = None

  @property
  def name(self) -> str:
    """The node's name, such as 'worker/0'."""
    return self.prepared.name

  @property
  def alive(self) -> bool:
    """Whether the node has a process whose end was not recorded yet."""
    return self._process is not None

  @property
  def pid(self) -> int:
    """Pid of the node's process; only valid while `alive` is True."""
    return self._process.pid

  @property
  def sentinel(self) -> int:
    """Handle for `multiprocessing.connection.wait`, ready at the process's end.

    It is ready, too, once the fork server of the process has ended.
    """
    return self._process.sentinel

  def trim_log(self) -> None:
    """Drops the older half of the node's log if the file is too large."""
    self._log.trim()

  def poll(self) -> int | None:
    """Returns the exit status of the process, or None if the process runs.

    A negative value is the negated number of the signal that ended the process.
    It is `fork_server.LOST_STATUS` if the fork server has ended.
    """
    return self._process.exitcode

  def start(self) -> None:
    """Starts a process of the node; its output is appended to the node's log.

    Raises:
      EOFError, OSError: the fork server has ended.
    """
    self.restart_due_s, self.failure = None, None
    self._log.begin()
    prepared = self.prepared
    process = fork_server.CONTEXT.Process(
      target=node_process.run,
      args=(
        prepared.function,
        str(self._log.path),
        prepared.environment,
        prepared.network,
      ),
      name=prepared.name,
    )
    process.start()
    self.started_at_s, self.signalled_at_s = time.monotonic(), None
    # Assigned last, so that after an interrupted start there is no process.
    self._process = process
    self.incarnations += 1

  def send_signal(self, number: int) -> None:
    """Sends a signal to the node's process, unless it has just ended."""
    with contextlib.suppress(ProcessLookupError):
      os.kill(self.pid, number)

  def kill(self) -> None:
    """Kills the node's process, if it has one, and waits up to 5 s for its end.

    A process that does not end, for example because it waits for a disk, is
    logged and then ignored.
    """
    if self._process is None:
      return
    self.send_signal(signal.SIGKILL)
    self._process.join(_KILL_TIMEOUT_S)
    if self._process.exitcode is None:
      logging.error("%s (%d) does not end, and is ignored", self.name, self.pid)
    self._process = None

  def record_end(self, status: int) -> failures.Failure | None:
    """Records that the node's process has ended, and returns why it failed.

    Args:
      status: exit status of the process, from `poll`.

    Returns:
      The failure of the process, or None if the process has ended normally.
    """
    self._process = None
    if status != node_process.NORMAL_EXIT_STATUS:
      self.failure = failures.explain_exit(
        self.name, status, self._log.path, self._log.start
      )
    return self.failure
