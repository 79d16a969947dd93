"""Tests of EvaluationRecord: the counts, and which evaluation is the best."""

import pytest

from slipway.configs import dqn
from slipway.launch.control import evaluation_record
from slipway.launch.runs import curves


def test_the_best_evaluation_is_that_with_the_best_repetition():
  record = evaluation_record.EvaluationRecord()
  limits = dqn.get_config().limits
  # mean return, returns of the repetition's episodes, whether it is the best
  evaluations = [
    (5.0, [2.0, 4.0], True),
    (1.0, [], False),
    (9.0, [2.0, 3.0], False),
    (3.0, [3.0], True),
    (4.0, [6.0, 2.0], True),
    (9.0, [], False),
  ]
  for count, (value, repeated, is_best) in enumerate(evaluations, start=1):
    row = curves.Evaluation(eval_return=value, eval_episodes=20)
    assert record.add(row, repeated) == is_best
    evaluation = record.status(limits)
    assert evaluation.count == count
    assert evaluation.mean_return == value
    assert evaluation.episodes == 20
  assert evaluation.best_mean_return == record.best_return == 4.0
  assert record.returns == [5.0, 1.0, 9.0, 3.0, 4.0, 9.0]
  assert evaluation.without_improvement == 1
  assert evaluation.recent_mean_return == pytest.approx(31 / 6)
  for _ in range(10):
    record.add(curves.Evaluation(eval_return=2.5))
  assert record.status(limits).recent_mean_return == 2.5
