"""SavedRun: the fields of a run that survive a restart of the control node."""

import time
from collections.abc import Mapping

import msgspec

from slipway.launch.orchestration import node_state
from slipway.launch.runs import curves, run_counters, run_status


class SavedRun(msgspec.Struct, forbid_unknown_fields=True):
  """The fields of a `RunState` that are saved, for a restarted control node.

  `RunState` and its `NodeStates` and `EvaluationRecord` change them in place.

  Attributes:
    name: the run's name.
    expected: number of nodes of each role that will report.
    started_at_s: unix seconds of the user's command.
    began_s: monotonic seconds of the user's command.
    resumed_from: counters of the snapshot from which the run was resumed, or
      None if it was not resumed.
    nodes: state of each node, by role and index.
    absent: role and index of each node that currently has no machine.
    evaluations: number of evaluations, including those before a resume.
    evaluation: last evaluation since the run was started or resumed, or None
      before the first.
    eval_returns: mean returns of the last evaluations, at most
      `base.RETURNS_KEPT`, in their order.
    best_return: highest mean return of a repeated evaluation, or None before
      the first.
    without_improvement: number of evaluations since `best_return` last rose.
    first_step_at_s: unix seconds of the first update, or None before it.
    learning_since: the run's counts at the first update, or None before it.
    lost: work that was lost because nodes restored older snapshots.
  """

  name: str
  expected: dict[str, int]
  started_at_s: float
  began_s: float
  resumed_from: run_counters.RunCounters | None = None
  nodes: dict[str, dict[int, node_state.NodeState]] = {}
  absent: list[tuple[str, int]] = []
  evaluations: int = 0
  evaluation: curves.Evaluation | None = None
  eval_returns: list[float] = []
  best_return: float | None = None
  without_improvement: int = 0
  first_step_at_s: float | None = None
  learning_since: run_status.Milestone | None = None
  lost: run_counters.Losses = run_counters.Losses()

  @classmethod
  def start(
    cls,
    name: str,
    expected: Mapping[str, int],
    started_at_s: float,
    resumed_from: run_counters.RunCounters | None = None,
  ) -> "SavedRun":
    """Returns the fields of a run that is started or resumed.

    Args:
      name: the run's name.
      expected: number of nodes of each role that will report.
      started_at_s: unix seconds of the user's command.
      resumed_from: counters of the snapshot from which the run is resumed, or
        None if the run is new.
    """
    age_s = max(0.0, time.time() - started_at_s)
    began_s = time.monotonic() - age_s
    run = cls(name, dict(expected), started_at_s, began_s, resumed_from)
    if resumed_from:
      run.evaluations = resumed_from.evaluations
      run.eval_returns = list(resumed_from.eval_returns)
      run.best_return = resumed_from.best_eval_return
      run.without_improvement = resumed_from.evaluations_without_improvement
      run.lost = resumed_from.lost
      run.nodes = {
        role: {
          index: node_state.NodeState.from_counters(counters)
          for index, counters in nodes.items()
        }
        for role, nodes in resumed_from.nodes.items()
      }
    return run
