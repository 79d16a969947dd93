"""Crew: runs the nodes of a run, from their start to their end."""

import abc
import logging
import os
import pathlib
from collections.abc import Mapping

from slipway.launch.control import run_control
from slipway.launch.processes import failures, monitor, signals
from slipway.launch.runs import event_log, machine_usage


class Crew(abc.ABC):
  """What the runner of a machine and the supervisor of a cluster share.

  Methods other than `run` may be called in any thread, also by signal handlers.

  Attributes:
    first_failures: line about the first failure after which a node of a role
      was restarted, by role.
  """

  def __init__(self, log: pathlib.Path, expected: Mapping[str, int]):
    """Makes a crew without starting nodes.

    Args:
      log: path of the log with what happens to the nodes.
      expected: number of nodes of each role that will report.
    """
    self._expected = expected
    self._log = logging.Logger(log.name)
    self._log.addHandler(event_log.Handler(log))
    self._monitor = monitor.Monitor(log.parent)
    self._stopping = self._is_quick = self._kill_requested = False
    self._failure: failures.Failure | None = None
    self.first_failures: dict[str, str] = {}

  def run(self) -> None:
    """Starts all nodes, and returns when all have ended.

    Raises:
      failures.StateLostError: a node with a state, or the fork server, has
        died, and all nodes are killed.
      failures.NodeFailedError: a node used up its restart budget, or failed as
        the run was stopping.
      KeyboardInterrupt: `kill_at_once` was called, and all nodes are killed.
    """
    try:
      while self._step():
        if self._kill_requested:
          raise signals.SecondInterrupt
    finally:
      self._kill_all()
    if self._failure is not None:
      raise failures.NodeFailedError(self._failure)

  @property
  def expected(self) -> Mapping[str, int]:
    """Number of nodes of each role that report to the control."""
    return self._expected

  def follow(self, control: run_control.RunControl) -> None:
    """Matches what a user has changed; called regularly until a stop.

    By default, users can change nothing.
    """
    del control

  def measure(self) -> Mapping[str, machine_usage.MachineUsage]:
    """Returns the load of each machine, by the name of its node group."""
    return {machine_usage.HOME: self._monitor.measure(self._pids)}

  @property
  def _pids(self) -> dict[str, int]:
    """The run's processes on this machine, by name; the crew's among them."""
    return {"launcher": os.getpid()}

  def stop(self, is_quick: bool = False) -> None:
    """Makes the nodes save and end in the order of `stages`; none is restarted.

    Args:
      is_quick: as in `stages.last_snapshot_s`. A later call can only shorten
        the time.
    """
    self._is_quick |= is_quick
    self._stopping = True

  @property
  def has_failed(self) -> bool:
    """Whether a node has failed for good, so that the run must stop."""
    return self._failure is not None

  def kill_at_once(self) -> None:
    """Makes `run` kill all nodes and raise KeyboardInterrupt."""
    self._kill_requested = True

  @abc.abstractmethod
  def _step(self) -> bool:
    """Waits a moment, handles what happened; returns whether a node is left."""

  @abc.abstractmethod
  def _kill_all(self) -> None:
    """Kills all nodes at once, and waits for their ends."""

  def _fail(self, failure: failures.Failure) -> None:
    """Makes the run fail; after the first failure, others are only logged."""
    self._log.error("%s", failure.line)
    self._failure = self._failure or failure
    self.stop(is_quick=True)

  def _lose(self, failure: failures.Failure) -> None:
    """Handles the loss of a state: the run is resumed, or fails if it stops."""
    if not self._stopping:
      self._log.error("%s", failure.line)
      raise failures.StateLostError(failure)
    self._fail(failure)
