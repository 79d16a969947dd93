"""ControlClient: the control node with types, as other processes call it."""

import contextlib
import time
import typing
from collections.abc import Callable

from launch.orchestration import messages
from launch.runs import run_counters, run_status

_ANSWERS_WITHIN_S = 30.0
_RETRY_PERIOD_S = 0.1
# Below the timeout of a call, so that a long poll returns in any case.
_LONGEST_POLL_S = 1.0

T = typing.TypeVar("T")


class ControlClient:
  """Calls a control node; has the methods of `run_control.RunControl`.

  ```python
  control = ControlClient(handle.dereference())
  command = control.report('worker', 0, messages.WorkerReport(env_steps=7))
  ```

  A call raises what Courier raises if there is no answer in time. Those that a
  node cannot do without are repeated, as the control node may have to start:
  `register`, `variables_version` and `evaluated`.
  """

  def __init__(self, client: typing.Any):
    """Calls nothing yet.

    Args:
      client: Courier client of the control node, with a call timeout.
    """
    self._client = client

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    """Sends a node's report; returns what the node should do now."""
    reply = self._client.report(role, index, messages.encode(report))
    return messages.decode(reply, messages.Command)

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    """Sends the last report of a node that ends."""
    self._client.finished(role, index, messages.encode(report))

  def register(self, role: str, index: int) -> messages.Registration:
    """Returns what the predecessors of a node that starts have done.

    Raises:
      RuntimeError: the control node has not answered for long.
    """
    reply = call_with_retry(self._client.register, role, index)
    return messages.decode(reply, messages.Registration)

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Waits until every worker has collected its share of a round.

    Args:
      version: of the variables with which they collect.
      timeout_s: seconds; at most 1.

    Returns:
      The version with which every worker has collected; lower than `version`
      if the time is over or the run stops.
    """
    timeout_s = min(timeout_s, _LONGEST_POLL_S)
    return self._client.wait_collected(version, timeout_s)

  def counters(self) -> run_counters.RunCounters:
    """Returns what a snapshot keeps of the run."""
    reply = self._client.counters()
    return messages.decode(reply, run_counters.RunCounters)

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node knows.

    Raises:
      RuntimeError: the control node has not answered for long.
    """
    return call_with_retry(self._client.variables_version)

  def evaluated(self, evaluation: messages.Evaluation) -> bool:
    """Sends one evaluation; returns whether it is the best so far.

    Raises:
      RuntimeError: the control node has not answered for long.
    """
    return call_with_retry(self._client.evaluated, messages.encode(evaluation))

  def place(self, placement: messages.Placement) -> None:
    """Sends the machines that the run has now."""
    self._client.place(messages.encode(placement))

  def status(self) -> run_status.RunStatus:
    """Returns the status of the run."""
    return messages.decode(self._client.status(), run_status.RunStatus)

  def stop(self, reason: str) -> None:
    """Ends the run, in order."""
    self._client.stop(reason)

  def pause(self) -> str:
    """Pauses all nodes; returns '', or why nothing was done."""
    return self._client.pause()

  def resume(self) -> str:
    """Lets all nodes continue; returns like `pause`."""
    return self._client.resume()

  def save(self) -> str:
    """Requests a snapshot; returns like `pause`."""
    return self._client.save()

  def set_workers(self, count: int) -> str:
    """Sets the number of workers; returns like `pause`."""
    return self._client.set_workers(count)

  def set(self, field: str, value: float | str) -> str:
    """Changes a field of the config; returns like `pause`."""
    return self._client.set(field, value)


def call_with_retry(method: Callable[..., T], *args: typing.Any) -> T:
  """Calls a method until there is an answer.

  Args:
    method: of a Courier client with a call timeout.
    *args: of the method.

  Raises:
    RuntimeError: there was no answer for 30 s.
  """
  end_s = time.monotonic() + _ANSWERS_WITHIN_S
  while time.monotonic() < end_s:
    with contextlib.suppress(Exception):
      return method(*args)
    time.sleep(_RETRY_PERIOD_S)
  raise RuntimeError(
    f"control has not answered for {_ANSWERS_WITHIN_S:.0f} s, so this node "
    "can't continue: the control node's log may give the reason"
  )
