"""Tests of the advice on a config that a learner's metrics give."""

import math
import types

import pytest

from slipway.configs import base, catalog
from slipway.launch.control import advice
from slipway.launch.diagnosis import finding
from slipway.launch.runs import run_status


@pytest.fixture
def clock(monkeypatch):
  clock = types.SimpleNamespace(now_s=100.0)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(advice, "time", clock)
  return clock


class Live:
  """A live run, whose reports an advisor gets."""

  def __init__(self, clock, algorithm, **changes):
    self.config = catalog.algorithms()[algorithm].get_config()
    for name, value in changes.items():
      section, _, field = name.partition("__")
      self.config[section][field] = value
    self._clock, self._advisor = clock, advice.Advisor()

  def report(self, metrics, returns=(), info=None, trained=None, solved=False):
    """Reports the same twice within 11 s; returns the only sentence, or ''."""
    for _ in range(2):
      self.report_once(metrics, returns, info, trained, solved)
      self._clock.now_s += 11.0
    sentences = self.report_once(metrics, returns, info, trained, solved)
    assert len(sentences) <= 1 and not any("\n" in x for x in sentences)
    return "".join(sentences)

  def report_once(
    self, metrics, returns=(), info=None, trained=None, solved=False
  ):
    evaluation = run_status.EvaluationStatus(
      episodes=info is not None, info=info or {}, at_target=solved
    )
    status = run_status.RunStatus(
      trainer_steps=1_000, training_return=trained, evaluation=evaluation
    )
    self._advisor.update(
      finding.Evidence(self.config, status, metrics, returns)
    )
    return self._advisor.sentences


CASES = [
  ("c51", {}, {"below_support": 0.04, "above_support": 0.05}, None),
  (
    "c51",
    {},
    {"below_support": 0.0, "above_support": 0.5},
    "50% of the target returns are above the support, so their values can't "
    "be learned: set config.network.highest_return=200",
  ),
  (
    "d4pg",
    {},
    {"below_support": 0.3, "above_support": 0.0},
    "learned: set config.network.lowest_return=-1600",
  ),
  (
    "d4pg",
    {"network__lowest_return": -math.inf, "network__highest_return": math.inf},
    {"below_support": 0.3, "above_support": 0.0},
    "below the support, so their values can't be learned: set config",
  ),
  ("dqn", {"learner__huber_delta": 2.0}, {"td_error_abs_mean": 7.9}, None),
  (
    "dqn",
    {"learner__huber_delta": 2.0},
    {"td_error_abs_mean": 8.1},
    "8.1 on average is clipped at config.learner.huber_delta=2,",
  ),
  # The delta of quantile losses or of rescaled values has another meaning.
  ("qr_dqn", {}, {"td_error_abs_mean": 1e3}, None),
  ("r2d2", {}, {"td_error_abs_mean": 1e3}, None),
  ("ppo", {}, {"td_error_abs_mean": 1e3}, None),
  ("ppo", {}, {"gradient_norm": 499.0}, None),
  ("ppo", {}, {"gradient_norm": 501.0}, "learner.max_gradient_norm=0.5,"),
  ("dqn", {"learner__max_gradient_norm": 2.0}, {"gradient_norm": 9.9}, None),
  (
    "dqn",
    {"learner__max_gradient_norm": 2.0},
    {"gradient_norm": 10.1},
    "learner.max_gradient_norm=2, so rare results",
  ),
  ("dqn", {}, {"dead_units": 0.89}, None),
  (
    "dqn",
    {},
    {"dead_units": 0.91},
    "91% of a network's hidden units",
  ),
  ("ppo", {}, {"explained_variance": 0.03}, None),
  (
    "ppo",
    {},
    {"explained_variance": 0.0002},
    "values explain 0% of the variance of the returns",
  ),
  ("sac", {}, {"q_mean": -900.0}, None),
  (
    "sac",
    {},
    {"q_mean": -25_000.0},
    "action values of the size 2.5e+04",
  ),
  ("dqn", {}, {"q_mean": -25_000.0}, None),
  ("dqn", {}, {"td_error_abs_mean": None}, None),
  ("dqn", {}, {"td_error_abs_mean": math.nan}, None),
]


@pytest.mark.parametrize(("algorithm", "changes", "metrics", "words"), CASES)
def test_advice_is_given_once_after_10_s(
  clock, algorithm, changes, metrics, words
):
  live = Live(clock, algorithm, **changes)
  assert live.report_once(metrics) == []
  clock.now_s += 9.0
  assert live.report_once(metrics) == []
  sentence = live.report(metrics)
  assert (words or "") in sentence and bool(words) == bool(sentence)


def test_a_short_excess_gives_no_advice(clock):
  live = Live(clock, "c51")
  for seconds, value in ((0, 0.9), (9, 0.9), (1, 0.0), (1, 0.9), (9, 0.9)):
    clock.now_s += seconds
    found = live.report_once({"below_support": 0.0, "above_support": value})
    assert found == []


@pytest.mark.parametrize(
  ("returns", "is_advised"),
  [
    ([-200.0] * 9, False),
    ([-200.0] * 10, True),
    ([-200.0] * 29 + [-199.0], False),
    # The returns before the kept ones are unknown.
    ([500.0] * base.RETURNS_KEPT, False),
    # A policy has seen better returns, and stays at the lowest one.
    ([-200.0, -190.0] + [-200.0] * 19, False),
    ([-190.0] + [-200.0] * 20, True),
    ([-200.0, -190.0] + [-195.0] * 20, False),
  ],
)
def test_returns_that_never_change(clock, returns, is_advised):
  sentence = Live(clock, "dqn").report({}, returns)
  assert bool(sentence) == ("-200" in sentence) == is_advised


# mean returns of evaluations, that of training, words of the only advice
COMPARED = [
  ([-200.0] * 10, -10.0, "config.evaluation.policy='sampled'"),
  ([-200.0] * 10, -199.5, "the lowest so far"),
  ([-200.0] * 10, None, "the lowest so far"),
  ([*[-200.0] * 9, -12.0], -10.0, ""),
]


@pytest.mark.parametrize(("returns", "trained", "words"), COMPARED)
def test_evaluations_are_compared_with_training(clock, returns, trained, words):
  sentence = Live(clock, "ppo").report({}, returns, trained=trained)
  assert words in sentence and bool(words) == bool(sentence)


def test_evaluations_of_another_task_are_not_compared_with_training(clock):
  live = Live(clock, "ppo")
  live.config.evaluation.environment.time_limit = 9
  assert not live.report({}, [9.0 + i for i in range(10)], trained=500.0)


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_gradients_that_are_not_finite(clock, norm):
  sentence = Live(clock, "dqn").report({"gradient_norm": norm})
  assert "updates are skipped" in sentence
  assert "config.learner.learning_rate=0.002" in sentence


def test_a_target_that_is_reached_at_once_gives_no_advice(clock):
  assert not Live(clock, "dqn").report({}, [1.0] * 50, solved=True)


@pytest.mark.parametrize(
  "changes",
  [
    {"evaluation__info": ("success",)},
    {"limits__target_info": "success:0.9"},
  ],
)
def test_a_number_that_no_info_has(clock, changes):
  for info in (None, {"success": 0.0}):
    assert not Live(clock, "dqn", **changes).report({}, [], info)
  assert "['success']" in Live(clock, "dqn", **changes).report({}, [], {})
