"""ControlService: what other processes call of a run's control."""

import typing

from slipway.launch.control import messages, sampling
from slipway.launch.runs import run_counters, run_status


class ControlService(typing.Protocol):
  """The calls of a run's control, which `run_control.RunControl` implements."""

  def report(
    self, role: str, index: int, report: messages.Report
  ) -> messages.Command:
    """Records a node's periodic report, and returns the node's command.

    Args:
      report: counts of the node's current process.
    """
    ...

  def finished(self, role: str, index: int, report: messages.Report) -> None:
    """Records a node's last report, and that the node has ended."""
    ...

  def register(self, role: str, index: int) -> messages.Registration:
    """Returns counts of earlier processes of a node, to one that starts."""
    ...

  def wait_collected(self, version: int, timeout_s: float) -> int:
    """Waits until every worker has collected its share of a round (mode sync).

    Args:
      version: version of the variables with which the workers collect.
      timeout_s: seconds after which the wait ends; at most 1 s is used.

    Returns:
      The newest version with which every worker has collected. It is lower
      than `version` if the timeout has passed or the run stops.
    """
    ...

  def counters(self) -> run_counters.RunCounters:
    """Returns the run's current counters, for a new snapshot."""
    ...

  def variables_version(self) -> int:
    """Returns the highest version of the variables that any node reported."""
    ...

  def evaluated(
    self, evaluation: messages.Evaluation
  ) -> messages.EvaluationReply:
    """Records an evaluation, and returns whether it is the best so far.

    An evaluation that the evaluator sends again, because the reply was lost,
    counts once. Evaluations after one that has ended the run are ignored. If
    the run ended for another reason, the evaluation in progress still counts,
    so that equal runs have equal results.

    Args:
      evaluation: results of at least one episode.
    """
    ...

  def status(self) -> run_status.RunStatus:
    """Returns the run's current status."""
    ...

  def sample(self, seconds: float, per_s: float, is_first: bool) -> None:
    """Makes all processes sample their stacks; earlier profiles are dropped.

    Args:
      seconds: duration from now on. At most 2 s are used, so that a profile
        whose command was killed ends: repeat the call for a longer one.
      is_first: whether the call begins a profile, or continues one.

    Raises:
      ValueError: the run is stopping, or the call would begin a second profile
        at the same time.
    """
    ...

  def get_profile(self, name: str) -> sampling.Profile | None:
    """Returns a process's profile, or None if it sends none within 2 s.

    Args:
      name: the node's name ('worker/0'), or 'launcher'.
    """
    ...

  def stop(self, reason: str) -> None:
    """Stops the run: its nodes end in the order of `stages`.

    Args:
      reason: reason of the stop for the user. Later calls do not change it,
        but the name of a signal shortens the time for the last snapshot.
    """
    ...

  def pause(self) -> None:
    """Pauses all nodes until `resume` is called; limits stay in force.

    Raises:
      ValueError: the run is stopping.
    """
    ...

  def resume(self) -> None:
    """Ends the pause that `pause` began; all nodes continue.

    Raises:
      ValueError: the run is stopping.
    """
    ...

  def save(self) -> None:
    """Requests a snapshot, which the trainer writes soon after.

    Raises:
      ValueError: the run is stopping.
    """
    ...

  def set_workers(self, count: int) -> None:
    """Sets the run's number of workers.

    Args:
      count: the new number; workers are started or stopped to reach it.

    Raises:
      ValueError: the run is stopping, or can't have this number of workers.
    """
    ...

  def set(self, field: str, value: float | str) -> None:
    """Changes a limit or rate of the run's config while the run is active.

    Args:
      field: name of a field in `settings.FIELDS`.

    Raises:
      ValueError: the run is stopping, or the field can't have this value.
    """
    ...
