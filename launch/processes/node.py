"""Node: starts, signals and kills the successive processes of one node."""

import contextlib
import os
import pathlib
import time
import uuid

from slipway.launch.processes import (
  failures,
  fork_server,
  forking,
  node_process,
)

# Size in bytes above which the older half of a log is dropped.
MAX_LOG_BYTES = 10_000_000


class Node:
  """A node of this machine, with its current process and its restarts.

  A node has at most one process at a time; a restart replaces an ended process.

  Attributes:
    prepared: the function and environment of the next process.
    pid: pid of the newest process, or 0 before the first.
    mark: mark of the newest process, as for `descendants.kill_marked`.
    alive: whether that process has not ended.
    starts: number of processes that were started so far.
    started_at_s: monotonic seconds of the newest process's start.
    signalled_at_s: monotonic seconds at which the runner sent the shutdown
      signal to the process, or None.
    restart_due_s: monotonic seconds of the next restart, or None if the node
      will not be restarted.
    failure: failure that ended the newest process, or None if that process runs
      or has ended normally.
    budget: the node's restart budget.
  """

  def __init__(
    self,
    prepared: node_process.PreparedNode,
    logs: pathlib.Path,
    budget: failures.RestartBudget,
  ):
    """Makes a node without starting it.

    Args:
      prepared: the node's function and environment.
      logs: folder of the logs of all nodes.
      budget: the node's restart budget.
    """
    self.prepared, self.budget = prepared, budget
    self.pid, self.mark, self.alive, self.starts = 0, "", False, 0
    self.started_at_s = 0.0
    self.signalled_at_s: float | None = None
    self.restart_due_s: float | None = None
    self.failure: failures.Failure | None = None
    self._log = logs.resolve() / prepared.name

  @property
  def name(self) -> str:
    """The node's name, such as 'worker/0'."""
    return self.prepared.name

  @property
  def role(self) -> str:
    """The node's role, such as 'worker'."""
    return self.prepared.role

  def start(self, server: fork_server.ForkServer) -> None:
    """Starts a process of the node; its output is appended to the node's log.

    Raises:
      fork_server.EndedError: the fork server has ended.
    """
    self.restart_due_s, self.failure = None, None
    with contextlib.suppress(OSError):  # such as a full disk
      self._log.parent.mkdir(exist_ok=True)
      self._log.touch()
    self.mark = uuid.uuid4().hex
    self.pid = server.fork(self.prepared, self._log, self.mark)
    self.started_at_s, self.signalled_at_s = time.monotonic(), None
    self.alive = True
    self.starts += 1

  def send_signal(self, number: int) -> None:
    """Sends a signal to the node's process, unless it has just ended."""
    with contextlib.suppress(ProcessLookupError):
      os.kill(self.pid, number)

  def record_end(self, end: forking.NodeEnd) -> failures.Failure | None:
    """Records that the node's process has ended, and returns why it failed.

    Returns:
      The failure of the process, or None if the process has ended normally.
    """
    self.alive = False
    if end.status != node_process.NORMAL_EXIT_STATUS:
      self.failure = failures.explain_exit(
        self.name, end.status, end.error, self._log
      )
    return self.failure

  def trim_log(self) -> None:
    """Drops the older half of the node's log if the file is too large."""
    trim_log(self._log)


def trim_log(path: pathlib.Path) -> None:
  """Drops the older half of a log if it is larger than `MAX_LOG_BYTES`.

  Output that a process prints during this call may be lost, too.
  """
  with contextlib.suppress(OSError):
    dropped = path.stat().st_size - MAX_LOG_BYTES // 2
    if dropped <= MAX_LOG_BYTES // 2:
      return
    with open(path, "r+b") as file, open(path, "ab") as end:
      file.seek(dropped)
      _, _, newest = file.read(MAX_LOG_BYTES // 2).partition(b"\n")
      # Emptied in place and not replaced, because the node's process has the
      # file open.
      file.truncate(0)
      note = f"[{dropped:,} bytes of this log were dropped here]\n"
      end.write(note.encode() + newest)
