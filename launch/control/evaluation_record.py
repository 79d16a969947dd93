"""EvaluationRecord: the run's evaluations, and the best one of them."""

from collections.abc import Sequence

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

  Attributes:
    returns: mean returns of the last `base.RETURNS_KEPT` evaluations, in order.
    infos: numbers of the same evaluations' infos; means by name, of the names
      in `base.list_info_names`.
    best_return: highest mean return of a repeated evaluation, or None.
    last: the last evaluation of this process, or None before the first.
  """

  def __init__(self, resumed: run_counters.RunCounters | None = None):
    """Starts with the evaluations of the snapshot of a resumed run, if any."""
    before = (
      resumed.status.evaluation if resumed else run_status.EvaluationStatus()
    )
    self._count = before.count
    self.returns = list(resumed.eval_returns) if resumed else []
    self.infos = list(resumed.eval_infos) if resumed else []
    self.best_return = before.best_mean_return
    self._without_improvement = before.without_improvement
    self.last: curves.Evaluation | None = None

  def add(
    self, evaluation: curves.Evaluation, repeated: Sequence[float] = ()
  ) -> bool:
    """Records an evaluation, and returns whether it is the best so far.

    The highest of many noisy means overestimates the policy that it selects.
    So an evaluation is compared by the mean return of its repetition, which has
    other episodes; without a repetition it is never the best. One that equals
    the best counts as the best, but not as an improvement.

    Args:
      repeated: [N], returns of the repetition's episodes; empty if there was
        none.
    """
    assert evaluation.eval_return is not None
    self._count += 1
    self.last = evaluation
    self.returns.append(evaluation.eval_return)
    self.infos.append(evaluation.info)
    for kept in (self.returns, self.infos):
      del kept[: -base.RETURNS_KEPT]
    self._without_improvement += 1
    if not repeated:
      return False
    mean_return = float(np.mean(repeated))
    if self.best_return is not None and mean_return < self.best_return:
      return False
    if self.best_return is None or mean_return > self.best_return:
      self._without_improvement = 0
    self.best_return = mean_return
    return True

  def status(
    self, config_limits: ml_collections.ConfigDict
  ) -> run_status.EvaluationStatus:
    """Returns the status's section about evaluations.

    Args:
      config_limits: section `limits` of the config, with the target return.
    """
    last, returns = self.last, self.returns
    return run_status.EvaluationStatus(
      self._count,
      returns[-1] if returns else None,
      (last and last.eval_episodes) or 0,
      run_status.recent_mean_return(returns) if returns else None,
      self.best_return,
      self._without_improvement,
      *limits.count_at_targets(config_limits, returns, self.infos),
      returns[-run_status.LAST_RETURNS :],
      last.info if last else {},
    )
