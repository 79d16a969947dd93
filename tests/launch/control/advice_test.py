"""Tests of the advice on a config that a learner's metrics give."""

import math
import types

import pytest

from slipway.configs import base, catalog
from slipway.launch.control import advice


@pytest.fixture
def clock(monkeypatch):
  clock = types.SimpleNamespace(now_s=100.0)
  clock.monotonic = lambda: clock.now_s
  monkeypatch.setattr(advice, "time", clock)
  return clock


def make_advisor(algorithm, **changes):
  config = catalog.algorithms()[algorithm].get_config()
  for name, value in changes.items():
    section, _, field = name.partition("__")
    config[section][field] = value
  return advice.Advisor(config)


CASES = [
  ("c51", {}, {"below_support": 0.04, "above_support": 0.05}, None),
  (
    "c51",
    {},
    {"below_support": 0.0, "above_support": 0.5},
    "50% of the target returns are above the support, "
    "config.network.highest_return=200",
  ),
  (
    "d4pg",
    {},
    {"below_support": 0.3, "above_support": 0.0},
    "below the support, config.network.lowest_return=-1600",
  ),
  (
    "d4pg",
    {"network__lowest_return": -math.inf, "network__highest_return": math.inf},
    {"below_support": 0.3, "above_support": 0.0},
    "below all atoms, so their values can't be learned: lower config",
  ),
  ("dqn", {"learner__huber_delta": 2.0}, {"td_error_abs_mean": 7.9}, None),
  (
    "dqn",
    {"learner__huber_delta": 2.0},
    {"td_error_abs_mean": 8.1},
    "clipped at config.learner.huber_delta=2,",
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
    "learner.max_gradient_norm=2, so that batches with rare results",
  ),
  ("dqn", {}, {"dead_units": 0.89}, None),
  (
    "dqn",
    {},
    {"dead_units": 0.91},
    "learning_rate=0.002, or set config.network.layer_norm='all'",
  ),
  # 'all' leaves the policy without norms.
  (
    "sac",
    {},
    {"dead_units": 0.91},
    "learning_rate=0.001, or set config.network.layer_norm='first'",
  ),
  (
    "sac",
    {"network__layer_norm": "all"},
    {"dead_units": 1.0},
    "100% of a network's hidden units",
  ),
  ("ppo", {}, {"explained_variance": 0.03}, None),
  (
    "ppo",
    {},
    {"explained_variance": 0.0002},
    "values explain 0% of the variance of the returns, so advantages are "
    "mostly noise: set config.normalization.observations=True and "
    "config.normalization.rewards=True, raise config.learner.learning_rate",
  ),
  (
    "ppo",
    {"normalization__observations": True, "normalization__rewards": True},
    {"explained_variance": -0.5},
    "noise: raise config.learner.learning_rate=0.001",
  ),
  ("sac", {}, {"q_mean": -900.0}, None),
  (
    "sac",
    {},
    {"q_mean": -25_000.0},
    "action values of -2.5e+04 on average",
  ),
  ("dqn", {}, {"q_mean": -25_000.0}, None),
  ("dqn", {}, {"td_error_abs_mean": None}, None),
  ("dqn", {}, {"td_error_abs_mean": math.nan}, None),
]


@pytest.mark.parametrize(("algorithm", "changes", "metrics", "words"), CASES)
def test_advice_is_given_once_after_10_s(
  clock, algorithm, changes, metrics, words
):
  advisor = make_advisor(algorithm, **changes)
  advisor.update(metrics)
  clock.now_s += 9.0
  advisor.update(metrics)
  assert advisor.sentences == []
  for _ in range(3):
    clock.now_s += 10.0
    advisor.update(metrics)
  if words is None:
    assert advisor.sentences == []
  else:
    (sentence,) = advisor.sentences
    assert words in sentence and "\n" not in sentence


@pytest.mark.parametrize("algorithm", ["ppo", "d4pg", "mpo"])
def test_no_norm_is_advised_that_is_set_or_unknown(clock, algorithm):
  """PPO has no such field, and the presets of D4PG and MPO set it."""
  advisor = make_advisor(algorithm)
  for _ in range(2):
    advisor.update({"dead_units": 1.0})
    clock.now_s += 11.0
  (sentence,) = advisor.sentences
  assert "layer_norm" not in sentence


def test_a_short_excess_gives_no_advice(clock):
  advisor = make_advisor("c51")
  for seconds, value in ((0, 0.9), (9, 0.9), (1, 0.0), (1, 0.9), (9, 0.9)):
    clock.now_s += seconds
    advisor.update({"below_support": 0.0, "above_support": value})
  assert advisor.sentences == []


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
def test_returns_that_never_change(returns, is_advised):
  advisor = make_advisor("dqn")
  advisor.update({}, returns)
  assert [x for x in advisor.sentences if "-200" in x] == advisor.sentences
  assert bool(advisor.sentences) == is_advised


@pytest.mark.parametrize(
  ("algorithm", "changes", "words"),
  [
    (
      "ppo",
      {},
      "set config.normalization.observations=True or config.bonus.kind='rnd', ",
    ),
    ("ppo", {"bonus__kind": "icm"}, "set config.normalization.observations=T"),
    ("r2d2", {"network__torso": "nature_cnn"}, "its noise, or let the"),
  ],
)
def test_what_helps_to_find_rare_rewards(algorithm, changes, words):
  advisor = make_advisor(algorithm, **changes)
  advisor.update({}, [-200.0] * 10)
  (sentence,) = advisor.sentences
  assert words in sentence and "\n" not in sentence


# mean returns of evaluations, that of training, words of the only advice
COMPARED = [
  ([-200.0] * 10, -10.0, "set config.evaluation.policy='sampled'"),
  ([-200.0] * 10, -199.5, "may never have seen a better one"),
  ([-200.0] * 10, None, "may never have seen a better one"),
  ([*[-200.0] * 9, -12.0], -10.0, None),
  (
    [1.0 + i * 1e-3 for i in range(10)],
    1.0,
    "set config.normalization.rewards",
  ),
  ([1.0 + i * 1e-2 for i in range(10)], 1.0, None),
]


def test_evaluations_of_another_task_are_not_compared_with_training():
  config = catalog.algorithms()["ppo"].get_config()
  config.evaluation.environment.time_limit = 9
  advisor = advice.Advisor(config)
  advisor.update({}, [9.0 + i for i in range(10)], training_return=500.0)
  assert advisor.sentences == []


@pytest.mark.parametrize(("returns", "trained", "words"), COMPARED)
def test_evaluations_are_compared_with_training(returns, trained, words):
  advisor = make_advisor("ppo")
  advisor.update({}, returns, training_return=trained)
  if words is None:
    assert advisor.sentences == []
  else:
    (sentence,) = advisor.sentences
    assert words in sentence and "\n" not in sentence


@pytest.mark.parametrize("norm", [math.nan, math.inf])
def test_gradients_that_are_not_finite(norm):
  advisor = make_advisor("dqn")
  advisor.update({"gradient_norm": norm})
  (sentence,) = advisor.sentences
  assert "updates are skipped" in sentence
  assert "config.learner.learning_rate=0.002" in sentence


def test_a_target_that_is_reached_at_once_gives_no_advice():
  advisor = make_advisor("dqn", limits__target_return=1.0)
  advisor.update({}, [1.0] * 50)
  assert advisor.sentences == []


@pytest.mark.parametrize(
  ("info", "is_advised"),
  [(None, False), ({"is_success": 0.0}, False), ({}, True)],
)
def test_a_number_that_no_info_has(info, is_advised):
  advisor = make_advisor("dqn", evaluation__info=("is_success",))
  for _ in range(2):
    advisor.update({}, [], info)
  assert [x for x in advisor.sentences if "'is_success'" in x] == (
    advisor.sentences
  )
  assert len(advisor.sentences) == is_advised


@pytest.mark.parametrize(
  ("info", "is_advised"),
  [(None, False), ({"success": 0.0}, False), ({}, True)],
)
def test_a_target_of_a_number_that_an_info_lacks(info, is_advised):
  advisor = make_advisor("dqn", limits__target_info="success:0.9")
  for _ in range(2):
    advisor.update({}, [], info)
  assert len(advisor.sentences) == is_advised
  for sentence in advisor.sentences:
    assert "limits.target_info='success:0.9', and the run does" in sentence
