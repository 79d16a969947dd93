"""A node of this machine: its process, if it has one now, and its failures."""

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
  payloads,
)
from slipway.launch.processes import restarts as restarts_lib

# What is left of an exit status if the fork server has ended; the process may
# live on.
_ORPHANED = 255
_LOOK_S = 0.01
_KILLED_WITHIN_S = 5.0


class Node:
  """One node, which is started any number of times.

  Attributes:
    payload: what its next process runs.
    lives: how often it was started.
    due_s: monotonic seconds at which it is to be started again; None: it is
      not.
    ended_at_s: monotonic seconds at which its newest process was seen to have
      ended.
    failure: of its newest process, which has ended; None: there was none.
  """

  def __init__(
    self,
    payload: payloads.Payload,
    logs: pathlib.Path,
    restarts: restarts_lib.Restarts,
  ):
    """Starts nothing.

    Args:
      payload: what it runs.
      logs: folder of the nodes' logs.
      restarts: its own.
    """
    self.payload = payload
    self.lives = 0
    self.due_s: float | None = None
    self.ended_at_s = 0.0
    self.failure: failures.Failure | None = None
    self._restarts = restarts
    self._failed: list[failures.Failure] = []
    self._log = node_log.NodeLog(logs.resolve() / payload.name)
    self._process: typing.Any = None
    self._orphaned = False

  @property
  def name(self) -> str:
    """'worker/0'."""
    return self.payload.name

  @property
  def alive(self) -> bool:
    """Whether it has a process, whose end was not looked at yet."""
    return self._process is not None

  @property
  def pid(self) -> int:
    """Of its process."""
    return self._process.pid

  @property
  def sentinel(self) -> int | None:
    """What is ready, for `connection.wait`, once its process has ended.

    None: only `poll` can find that out.
    """
    return None if self._orphaned else self._process.sentinel

  def trim_log(self) -> None:
    """Drops the older half of its log if that has grown too large."""
    self._log.trim()

  def poll(self) -> int | None:
    """Returns the exit status of its process; None: it runs."""
    status = self._process.exitcode
    if status == _ORPHANED:
      self._orphaned = True
    return fork_server.poll_orphan(self.pid) if self._orphaned else status

  def start(self) -> None:
    """Starts its process; what that prints is appended to the node's log."""
    self.due_s, self.failure = None, None
    self._log.begin()
    payload = self.payload
    process = fork_server.CONTEXT.Process(
      target=node_process.run,
      args=(
        payload.function,
        str(self._log.path),
        payload.environment,
        payload.network,
      ),
      name=payload.name,
    )
    process.start()
    self._orphaned = False
    self._process = process  # not before: an interrupted start leaves none
    self.lives += 1

  def kill(self, wait: bool = True) -> None:
    """Ends its process, if it has one, by SIGKILL.

    Args:
      wait: until that has happened; else call again. A process that does not
        end, such as one that waits for a disk, is logged and left.
    """
    if self._process is None:
      return
    with contextlib.suppress(ProcessLookupError):
      os.kill(self.pid, signal.SIGKILL)
    deadline_s = time.monotonic() + _KILLED_WITHIN_S
    while wait and self._process is not None:
      if self.poll() is not None:
        self._process = None
      elif time.monotonic() > deadline_s:
        logging.error("%s (%d) does not end, and is left", self.name, self.pid)
        self._process = None
      else:
        time.sleep(_LOOK_S)

  def take_end(self, status: int) -> failures.Failure | None:
    """Takes the end of its process; returns what was wrong, if anything.

    Args:
      status: from `poll`.
    """
    self._process = None
    self.ended_at_s = time.monotonic()
    if status != node_process.ENDED:
      self.failure = failures.explain(
        self.name, status, self._log.path, self._log.start
      )
    return self.failure

  def restart_delay_s(
    self, failure: failures.Failure, now_s: float
  ) -> float | None:
    """Seconds after which it should be started again; None: its budget is used.

    Args:
      failure: that it had just now.
      now_s: monotonic seconds.
    """
    if self._restarts.all_forgiven(now_s):
      self._failed.clear()
    self._failed.append(failure)
    return self._restarts.delay_s(now_s)

  @property
  def first_failure(self) -> failures.Failure:
    """Of those that are not forgiven: the first error, or the first."""
    # An error says more than a signal that came before it.
    errors = [failure for failure in self._failed if failure.whole]
    return (errors or self._failed)[0]
