"""EvaluationRecord: the run's evaluations, and the best one of them."""

from collections.abc import Mapping, Sequence

import ml_collections
import numpy as np

from slipway.configs import base
from slipway.launch.control import limits
from slipway.launch.runs import curves, run_counters, run_status


class EvaluationRecord:
  """Records a run's evaluations, and finds the best one.

  ```python
  record = EvaluationRecord()
  record.add(curves.Evaluation(eval_return=8.0), repeated=[7.0])  # True
  record.status(config.limits).best_mean_return  # 7.0
  ```
  """

  def __init__(self, resumed: run_counters.RunCounters | None = None):
    """Starts with the evaluations of the snapshot of a resumed run, if any."""
    before = (
      resumed.status.evaluation if resumed else run_status.EvaluationStatus()
    )
    self._count = before.count
    self._returns = list(resumed.eval_returns) if resumed else []
    self._infos = list(resumed.eval_infos) if resumed else []
    self._best_return = before.best_mean_return
    self._without_improvement = before.without_improvement
    # The last evaluation of this process, or None before the first.
    self._last: curves.Evaluation | None = None

  @property
  def returns(self) -> Sequence[float]:
    """Mean returns of the last `base.RETURNS_KEPT` evaluations, in order."""
    return self._returns

  @property
  def infos(self) -> Sequence[Mapping[str, float]]:
    """Numbers of the same evaluations' infos; means by name."""
    return self._infos

  @property
  def info(self) -> Mapping[str, float] | None:
    """Numbers of the last evaluation's infos; None before one of this process.

    They are means by name, of the names in `base.list_info_names`.
    """
    return self._last.info if self._last else None

  @property
  def best_return(self) -> float | None:
    """Highest mean return of a repeated evaluation, or None without one."""
    return self._best_return

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
    self._count += 1
    self._last = evaluation
    self._returns.append(evaluation.eval_return)
    self._infos.append(evaluation.info)
    for kept in (self._returns, self._infos):
      del kept[: -base.RETURNS_KEPT]
    self._without_improvement += 1
    if not repeated:
      return False
    mean_return = float(np.mean(repeated))
    if self._best_return is not None and mean_return < self._best_return:
      return False
    if self._best_return is None or mean_return > self._best_return:
      self._without_improvement = 0
    self._best_return = mean_return
    return True

  def status(
    self, config_limits: ml_collections.ConfigDict
  ) -> run_status.EvaluationStatus:
    """Returns the status's section about evaluations.

    Args:
      config_limits: section `limits` of the config, with the target return.
    """
    last, returns = self._last, self._returns
    return run_status.EvaluationStatus(
      self._count,
      returns[-1] if returns else None,
      (last and last.eval_episodes) or 0,
      run_status.recent_mean_return(returns) if returns else None,
      self._best_return,
      self._without_improvement,
      limits.count_at_target(config_limits, returns),
      limits.count_at_target_info(config_limits, self._infos),
      last.info if last else {},
    )
