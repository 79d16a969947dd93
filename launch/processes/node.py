"""A node of this machine: its process, if it has one now, and its failures."""

import pathlib
import time
import typing

from launch.processes import failures, fork_server, node_process, payloads
from launch.processes import restarts as restarts_lib


class Node:
  """One node, which is started any number of times.

  Attributes:
    payload: what its next process runs.
    lives: how often it was started.
    due_s: monotonic seconds at which it is to be started again; None: it is
      not.
    ended_at_s: monotonic seconds at which its newest process was seen to have
      ended.
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
    self._restarts = restarts
    self._failed: list[failures.Failure] = []
    self._log = logs.resolve() / payload.name
    self._log_start = 0  # byte at which the log of its newest life begins
    self._process: typing.Any = None

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
  def sentinel(self) -> int:
    """What is ready, for `connection.wait`, once its process has ended."""
    return self._process.sentinel

  def start(self) -> None:
    """Starts its process; what that prints is appended to the node's log."""
    self.due_s = None
    self._log.parent.mkdir(exist_ok=True)
    self._log.touch()
    self._log_start = self._log.stat().st_size
    payload = self.payload
    process = fork_server.CONTEXT.Process(
      target=node_process.run,
      args=(payload.function, str(self._log), payload.environment),
      name=payload.name,
    )
    process.start()
    self._process = process  # not before: an interrupted start leaves none
    self.lives += 1

  def kill(self, wait: bool = True) -> None:
    """Ends its process, if it has one, by SIGKILL.

    Args:
      wait: until that has happened; else call again.
    """
    if self._process is None:
      return
    self._process.kill()
    if wait:
      self._process.join()
      self._process = None

  def take_end(self) -> failures.Failure | None:
    """Takes the end of its process; returns what was wrong, if anything."""
    self._process.join()
    status, self._process = self._process.exitcode, None
    self.ended_at_s = time.monotonic()
    if status == node_process.ENDED:
      return None
    return failures.explain(self.name, status, self._log, self._log_start)

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
