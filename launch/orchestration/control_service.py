"""ControlService: the interface of the control node for other processes."""

import typing

from slipway.launch.orchestration import messages
from slipway.launch.rpc import wire
from slipway.launch.runs import run_counters, run_status


class ControlService(typing.Protocol):
  """The methods of `run_control.RunControl` that other processes call.

  Clients retry the methods that are marked `wire.repeated`, because the control
  node may be restarting.
  """

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    """Receives a node's report; returns the node's command."""
    ...

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    """Receives the last report of a node that has ended."""
    ...

  @wire.repeated
  def register(self, role: str, index: int) -> messages.Registration:
    """Registers a node that starts; returns counts of its earlier processes."""
    ...

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Waits until every worker has collected its share of a round.

    Args:
      version: version of the variables with which the workers collect.
      timeout_s: seconds after which the wait ends, up to 1 s.

    Returns:
      The newest version with which every worker has collected. It is lower
      than `version` if the timeout has passed or the run stops.
    """
    ...

  def counters(self) -> run_counters.RunCounters:
    """Returns the counters that a snapshot contains."""
    ...

  @wire.repeated
  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node knows."""
    ...

  @wire.repeated
  def evaluated(self, evaluation: messages.Evaluation) -> bool:
    """Receives an evaluation; returns whether it is the best so far."""
    ...

  def place(self, placement: messages.Placement) -> None:
    """Receives the current machines of the run."""
    ...

  def status(self) -> run_status.RunStatus:
    """Returns the status of the run."""
    ...

  def stop(self, reason: str) -> None:
    """Stops the run in the stop order; the first reason is recorded."""
    ...

  def pause(self) -> None:
    """Pauses all nodes until `resume`.

    Raises:
      ValueError: the run is stopping.
    """
    ...

  def resume(self) -> None:
    """Makes all nodes continue after `pause`.

    Raises:
      ValueError: the run is stopping.
    """
    ...

  def save(self) -> None:
    """Requests a snapshot.

    Raises:
      ValueError: the run is stopping.
    """
    ...

  def set_workers(self, count: int) -> None:
    """Sets the number of workers.

    Raises:
      ValueError: the run is stopping, or can't have this number.
    """
    ...

  def set(self, field: str, value: float | str) -> None:
    """Changes a field of the config during the run.

    Args:
      field: name of a field in `settings.FIELDS`.
      value: the new value, or its text.

    Raises:
      ValueError: the run is stopping, or the field can't have this value.
    """
    ...

  def release(self) -> None:
    """Confirms that the launcher has the last status; the node may exit."""
    ...
