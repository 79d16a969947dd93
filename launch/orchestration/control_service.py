"""ControlService: what a run's control node does for other processes."""

import typing

from slipway.launch.orchestration import messages
from slipway.launch.rpc import wire
from slipway.launch.runs import run_counters, run_status


class ControlService(typing.Protocol):
  """The methods of `run_control.RunControl` that other processes call.

  Those that a node cannot do without are repeated, as the control node may have
  to start.
  """

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    """Takes a node's report; returns what the node should do now."""
    ...

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    """Takes the last report of a node that has ended."""
    ...

  @wire.repeated
  def register(self, role: str, index: int) -> messages.Registration:
    """Returns what the predecessors of a node that starts have done."""
    ...

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Waits until every worker has collected its share of a round.

    Args:
      version: of the variables with which they collect.
      timeout_s: seconds after which the wait is over; at most 1 is waited.

    Returns:
      The version with which every worker has collected; lower than `version`
      if the time is over or the run stops.
    """
    ...

  def counters(self) -> run_counters.RunCounters:
    """Returns what a snapshot keeps of the run."""
    ...

  @wire.repeated
  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node knows."""
    ...

  @wire.repeated
  def evaluated(self, evaluation: messages.Evaluation) -> bool:
    """Takes one evaluation; returns whether it is the best so far."""
    ...

  def place(self, placement: messages.Placement) -> None:
    """Takes the machines that the run has now."""
    ...

  def status(self) -> run_status.RunStatus:
    """Returns the status of the run."""
    ...

  def stop(self, reason: str) -> None:
    """Ends the run, in order; the first reason is the one that is kept."""
    ...

  def pause(self) -> None:
    """Lets no node make another step, until `resume`.

    Raises:
      ValueError: one line: the run is stopping; so do the methods below.
    """
    ...

  def resume(self) -> None:
    """Lets the nodes continue after `pause`."""
    ...

  def save(self) -> None:
    """Requests a snapshot."""
    ...

  def set_workers(self, count: int) -> None:
    """Sets the number of workers."""
    ...

  def set(self, field: str, value: float | str) -> None:
    """Changes a field of the config during the run.

    Args:
      field: one of `settings.FIELDS`.
      value: of the field's type, or its text.
    """
    ...

  def release(self) -> None:
    """Lets the control node end: the launcher has received the last status."""
    ...
