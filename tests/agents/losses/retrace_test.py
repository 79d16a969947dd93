"""Tests of Retrace against the paper's sum, step by step."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import retrace
from tests.agents.losses import checks

BATCH, STEPS, GAMMA = 6, 12, 0.9


def make_inputs(seed):
  """Returns sequences with several episode ends and autoresets each."""
  random = np.random.default_rng(seed)
  ended = np.zeros((BATCH, STEPS), bool)
  for t in range(STEPS):
    reset = ended[:, t - 1] if t else random.random(BATCH) < 0.3
    ended[:, t] = ~reset & (random.random(BATCH) < 0.35)
  terminated = ended & (random.random((BATCH, STEPS)) < 0.5)
  return {
    "reward": random.normal(size=(BATCH, STEPS)),
    "discount": GAMMA * ~terminated,
    "ended": ended,
    "q": random.normal(size=(BATCH, STEPS)),
    "next_values": random.normal(size=(BATCH, STEPS)),
    "log_ratio": random.normal(size=(BATCH, STEPS)),
  }


def find_steps(ended):
  """Returns the indices (b, t) of all steps except autoresets."""
  resets = np.zeros_like(ended)
  resets[:, 1:] = ended[:, :-1]
  return list(zip(*np.nonzero(~resets), strict=True))


def slow_target(inputs, b, t, lambda_):
  """Returns a target by a sum of traces: Munos et al. 2016, equations 3 and 4.

  It uses terminations and episode ends instead of `discount`.
  """
  found = inputs["q"][b, t]
  for s in range(t, STEPS):
    trace = 1.0
    for i in range(t + 1, s + 1):
      ratio = np.exp(inputs["log_ratio"][b, i])
      trace *= lambda_ * min(1.0, ratio)
    terminated = inputs["discount"][b, s] == 0
    bootstrap = 0.0 if terminated else inputs["next_values"][b, s]
    error = inputs["reward"][b, s] + GAMMA * bootstrap - inputs["q"][b, s]
    found += GAMMA ** (s - t) * trace * error
    if inputs["ended"][b, s]:
      break
  return found


def targets(inputs, lambda_):
  tensors = checks.to_tensors(inputs)
  return retrace.retrace_targets(**tensors, lambda_=lambda_).numpy()


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
def test_targets_equal_the_slow_sum(lambda_):
  inputs = make_inputs(0)
  assert inputs["ended"].sum(axis=1).max() >= 2
  found = targets(inputs, lambda_)
  for b, t in find_steps(inputs["ended"]):
    expected = slow_target(inputs, b, t, lambda_)
    np.testing.assert_allclose(found[b, t], expected, atol=1e-12)


def test_ratios_are_bounded():
  """Ratios above 1, also infinite ones, count as 1; those near 0 end traces."""
  inputs = make_inputs(0)
  inputs["log_ratio"][:] = 1e6
  own = {**inputs, "log_ratio": np.zeros((BATCH, STEPS))}
  np.testing.assert_array_equal(targets(inputs, 0.9), targets(own, 0.9))
  cut = {**inputs, "log_ratio": np.full((BATCH, STEPS), -1e6)}
  expected = inputs["reward"] + inputs["discount"] * inputs["next_values"]
  np.testing.assert_allclose(targets(cut, 0.9), expected, atol=1e-12)


@pytest.mark.parametrize("truncated", [False, True])
def test_nothing_leaks_over_the_end_of_an_episode(truncated):
  inputs = {
    "reward": np.array([[1.0, 2.0, 100.0, 4.0]]),
    "discount": np.array([[0.5, 0.5 * truncated, 0.5, 0.5]]),
    "ended": np.array([[False, True, False, False]]),
    "q": np.array([[10.0, 20.0, 30.0, 40.0]]),
    "next_values": np.array([[15.0, 25.0, 35.0, 45.0]]),
    "log_ratio": np.zeros((1, 4)),
  }
  later = {name: x.copy() for name, x in inputs.items()}
  # Changes the autoreset and the step of the next episode.
  for name in ("reward", "q", "next_values", "log_ratio"):
    later[name][0, 2:] = -7.0
  expected, found = (targets(x, 1.0)[0] for x in (inputs, later))
  last = 2.0 + 0.5 * 25.0 * truncated
  np.testing.assert_allclose(
    expected[:2], [1.0 + 0.5 * (15.0 + last - 20.0), last]
  )
  np.testing.assert_array_equal(found[:2], expected[:2])
  assert found[3] != expected[3]


def test_targets_have_no_gradient():
  inputs = make_inputs(0)
  del inputs["discount"]  # which is data
  discount = tf.constant(make_inputs(0)["discount"])

  def target_of(inputs, slow):
    del slow
    return retrace.retrace_targets(**inputs, discount=discount, lambda_=0.9)

  assert not checks.find_inputs_with_gradient(target_of, inputs)


def test_wrong_ranks_are_rejected():
  function = functools.partial(retrace.retrace_targets, lambda_=0.9)
  checks.check_ranks(function, make_inputs(0))
