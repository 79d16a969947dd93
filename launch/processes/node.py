"""Node: starts, polls and kills the successive processes of one node."""

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

# Exit status that multiprocessing reports for a process whose fork server has
# ended. The process itself may be alive.
_ORPHANED_STATUS = 255
_POLL_PERIOD_S = 0.01  # seconds between two checks whether a process has ended
_KILL_TIMEOUT_S = 5.0  # seconds that a killed process may take to end


class Node:
  """A node of this machine, with its current process and its restarts.

  A node has at most one process at a time; a restart replaces an ended process.

  Attributes:
    prepared: the function and environment of the next process.
    incarnations: number of processes that were started so far.
    restart_due_s: monotonic seconds of the next restart, or None if the node
      will not be restarted.
    ended_at_s: monotonic seconds at which the end of the newest process was
      detected; 0.0 before the first end.
    failure: failure that ended the newest process, or None if that process runs
      or has ended normally.
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
    self.restart_due_s: float | None = None
    self.ended_at_s = 0.0
    self.failure: failures.Failure | None = None
    self._budget = budget
    # Failures since the budget was last unused, oldest first.
    self._failures: list[failures.Failure] = []
    self._log = node_log.NodeLog(logs.resolve() / prepared.name)
    self._process: typing.Any = None
    # Whether the process's fork server has ended, so that `fork_server` has to
    # poll the process instead of multiprocessing.
    self._orphaned = False

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
  def sentinel(self) -> int | None:
    """Handle of the process for `multiprocessing.connection.wait`.

    The handle is ready once the process has ended. It is None if the process
    has outlived its fork server. Then only `poll` can detect the process's end.
    """
    return None if self._orphaned else self._process.sentinel

  def trim_log(self) -> None:
    """Drops the older half of the node's log if the file is too large."""
    self._log.trim()

  def poll(self) -> int | None:
    """Returns the exit status of the process, or None if the process runs.

    A negative value is the negated number of the signal that ended the process.
    """
    status = self._process.exitcode
    if status == _ORPHANED_STATUS:
      self._orphaned = True
    return fork_server.poll_orphan(self.pid) if self._orphaned else status

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
    self._orphaned = False
    # Assigned last, so that after an interrupted start there is no process.
    self._process = process
    self.incarnations += 1

  def kill(self, wait: bool = True) -> None:
    """Kills the node's process, if the node has one.

    Args:
      wait: whether to wait up to 5 s for the end of the process. A process that
        does not end, for example because it waits for a disk, is logged and
        then ignored.
    """
    if self._process is None:
      return
    with contextlib.suppress(ProcessLookupError):
      os.kill(self.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + _KILL_TIMEOUT_S
    while wait and self._process is not None:
      if self.poll() is not None:
        self._process = None
      elif time.monotonic() > deadline_s:
        logging.error(
          "%s (%d) does not end, and is ignored", self.name, self.pid
        )
        self._process = None
      else:
        time.sleep(_POLL_PERIOD_S)

  def record_end(self, status: int) -> failures.Failure | None:
    """Records that the node's process has ended, and why.

    Args:
      status: exit status of the process, from `poll`.

    Returns:
      The failure of the process, or None if the process has ended normally.
    """
    self._process = None
    self.ended_at_s = time.monotonic()
    if status != node_process.NORMAL_EXIT_STATUS:
      self.failure = failures.explain_exit(
        self.name, status, self._log.path, self._log.start
      )
    return self.failure

  def record_failure(
    self, failure: failures.Failure, now_s: float
  ) -> float | None:
    """Records a failure, and uses one restart of the node's budget.

    Args:
      failure: the failure that just happened.
      now_s: current monotonic seconds.

    Returns:
      The seconds until the node's restart, or None if the budget is used up.
    """
    if self._budget.is_unused(now_s):
      self._failures.clear()
    self._failures.append(failure)
    return self._budget.count_failure(now_s)

  @property
  def first_failure(self) -> failures.Failure:
    """The oldest recorded failure, preferably one with a traceback.

    Failures are forgotten once the restart budget's period has passed without a
    failure. At least one failure must have been recorded.
    """
    with_traceback = [each for each in self._failures if each.traceback]
    return (with_traceback or self._failures)[0]
