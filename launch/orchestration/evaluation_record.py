"""EvaluationRecord: the run's evaluations, and the best one of them."""

from collections.abc import Mapping, Sequence

import ml_collections
import numpy as np

from slipway.configs import base
from slipway.launch.orchestration import limits, saved_run
from slipway.launch.runs import curves, run_status


class EvaluationRecord:
  """Records a run's evaluations, and finds the best one.

  ```python
  record = EvaluationRecord(saved)
  record.add(curves.Evaluation(eval_return=8.0), repeated=[7.0])  # True
  record.status(config.limits).best_mean_return  # 7.0
  ```
  """

  def __init__(self, saved: saved_run.SavedRun):
    """Starts with the evaluations of `saved`, which `add` changes in place."""
    self._saved = saved

  @property
  def returns(self) -> Sequence[float]:
    """Mean returns of the last `base.RETURNS_KEPT` evaluations, in order."""
    return self._saved.eval_returns

  @property
  def info(self) -> Mapping[str, float] | None:
    """Numbers of the last evaluation's infos; None before one of this process.

    They are means by name, of the names in `evaluation.info`.
    """
    evaluation = self._saved.evaluation
    return evaluation.info if evaluation else None

  @property
  def best_return(self) -> float | None:
    """Highest mean return of a repeated evaluation, or None without one."""
    return self._saved.best_return

  def add(
    self, evaluation: curves.Evaluation, repeated: Sequence[float] = ()
  ) -> bool:
    """Records an evaluation, and returns whether it is the best so far.

    The highest of many noisy means overestimates the policy that it selects.
    So an evaluation is compared by the mean return of its repetition, which has
    other episodes; without a repetition it is never the best. One that equals
    the best counts as the best, but not as an improvement.

    Args:
      evaluation: the row of the curves.
      repeated: [N], returns of the repetition's episodes; empty if there was
        none.
    """
    assert evaluation.eval_return is not None
    saved = self._saved
    saved.evaluations += 1
    saved.evaluation = evaluation
    saved.eval_returns.append(evaluation.eval_return)
    del saved.eval_returns[: -base.RETURNS_KEPT]
    saved.without_improvement += 1
    if not repeated:
      return False
    mean_return = float(np.mean(repeated))
    if saved.best_return is not None and mean_return < saved.best_return:
      return False
    if saved.best_return is None or mean_return > saved.best_return:
      saved.without_improvement = 0
    saved.best_return = mean_return
    return True

  def status(
    self, config_limits: ml_collections.ConfigDict
  ) -> run_status.EvaluationStatus:
    """Returns the status's section about evaluations.

    Args:
      config_limits: section `limits` of the config, with the target return.
    """
    saved = self._saved
    last, returns = saved.evaluation, saved.eval_returns
    return run_status.EvaluationStatus(
      saved.evaluations,
      returns[-1] if returns else None,
      (last and last.eval_episodes) or 0,
      run_status.recent_mean_return(returns) if returns else None,
      saved.best_return,
      saved.without_improvement,
      limits.count_at_target(config_limits, returns),
      last.info if last else {},
    )
