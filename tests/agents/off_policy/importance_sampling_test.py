"""Tests of importance sampling: slow sums, and a process of known values."""

import numpy as np
import pytest

from slipway.agents.networks import layers
from slipway.agents.off_policy import (
  behaviour,
  importance_sampling,
  recording,
)
from tests.agents.off_policy import chain

LENGTHS = np.array([3, 1, 4, 2])


def slow_estimate(log_ratios, rewards, discount):
  """Returns the estimate and the effective numbers, by loops."""
  value, numbers = 0.0, []
  steps = range(LENGTHS.max())
  starts = np.cumsum(LENGTHS) - LENGTHS
  for t in steps:
    weights, weighted = [], 0.0
    for start, length in zip(starts, LENGTHS, strict=True):
      weight = 1.0
      for k in range(min(t + 1, length)):
        weight *= np.exp(log_ratios[start + k])
      weights.append(weight)
      weighted += weight * rewards[start + t] if t < length else 0.0
    value += discount**t * weighted / sum(weights)
    numbers.append(sum(weights) ** 2 / sum(w * w for w in weights))
  return value, numbers


def test_the_estimate_equals_the_slow_sum():
  random = np.random.default_rng(0)
  log_ratios, rewards = random.normal(size=(2, LENGTHS.sum()))
  log_ratios[4] = -np.inf  # the policy does not choose this action
  value, effective = importance_sampling.estimate(
    log_ratios, rewards, LENGTHS, 0.8
  )
  expected, numbers = slow_estimate(log_ratios, rewards, 0.8)
  np.testing.assert_allclose(value, expected)
  np.testing.assert_allclose(effective, numbers)


def test_the_recorded_policy_has_the_mean_return():
  rewards = np.random.default_rng(0).normal(size=LENGTHS.sum())
  value, effective = importance_sampling.estimate(
    np.zeros(len(rewards)), rewards, LENGTHS, 0.8
  )
  padded = importance_sampling.pad(rewards, LENGTHS)
  returns = [sum(0.8**t * r for t, r in enumerate(row)) for row in padded]
  np.testing.assert_allclose(value, np.mean(returns))
  np.testing.assert_allclose(effective, len(LENGTHS))


def test_many_small_weights_do_not_vanish():
  lengths = np.array([2_000, 2_000])
  log_ratios = np.repeat([-3.0, -3.1], lengths)
  rewards = np.repeat([1.0, 9.0], lengths)
  value, _ = importance_sampling.estimate(log_ratios, rewards, lengths, 1.0)
  assert 2_000 < value < 2_100  # 9 counts in the first steps only


def test_a_policy_that_no_episode_follows_has_no_estimate():
  log_ratios = np.zeros(LENGTHS.sum())
  log_ratios[np.cumsum(LENGTHS) - 1] = -np.inf
  value, effective = importance_sampling.estimate(
    log_ratios, np.ones(len(log_ratios)), LENGTHS, 1.0
  )
  assert np.isnan(value)
  np.testing.assert_allclose(effective, [3, 2, 1, 0])


@pytest.mark.parametrize("knows_probabilities", [True, False])
@pytest.mark.parametrize("policy", [chain.STOCHASTIC, chain.GREEDY])
def test_the_true_value_of_a_known_process(policy, knows_probabilities):
  """Within 4 %: 20,000 episodes, whose deviation is about that of the value."""
  data = recording.Recording(chain.SPEC, chain.record(20_000, 60))
  states = data.episodes.observations[data.before].argmax(axis=1)
  chosen = (states, data.episodes.actions)
  recorded = np.log(chain.RECORDED[chosen])
  if not knows_probabilities:
    learned = behaviour.estimate_log_probs(
      data, layers.TorsoSettings("mlp", (16,)), updates=500, seed=1
    )
    np.testing.assert_allclose(np.exp(learned), np.exp(recorded), atol=0.05)
    recorded = learned
  with np.errstate(divide="ignore"):
    log_ratios = np.log(policy[chosen]) - recorded
  value, _ = importance_sampling.estimate(
    log_ratios, data.episodes.rewards, data.episodes.lengths, chain.DISCOUNT
  )
  np.testing.assert_allclose(value, chain.value_of(policy), rtol=0.04)
