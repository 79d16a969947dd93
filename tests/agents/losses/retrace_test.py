"""Tests of Retrace against the paper's sum, step by step."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import retrace

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
  tensors = {
    name: tf.constant(x, tf.bool if name == "ended" else tf.float64)
    for name, x in inputs.items()
  }
  return retrace.retrace_targets(**tensors, lambda_=lambda_).numpy()


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_targets_equal_the_slow_sum(seed, lambda_):
  inputs = make_inputs(seed)
  assert inputs["ended"].sum(axis=1).max() >= 2
  found = targets(inputs, lambda_)
  for b, t in find_steps(inputs["ended"]):
    expected = slow_target(inputs, b, t, lambda_)
    np.testing.assert_allclose(found[b, t], expected, atol=1e-12)


def lambda_return(inputs, b, t, lambda_):
  """Returns an on-policy target recursively: Munos et al. 2016, equation 2."""
  terminated = inputs["discount"][b, t] == 0
  value = 0.0 if terminated else inputs["next_values"][b, t]
  if not inputs["ended"][b, t] and t + 1 < STEPS:
    later = lambda_return(inputs, b, t + 1, lambda_)
    value += lambda_ * (later - inputs["q"][b, t + 1])
  return inputs["reward"][b, t] + GAMMA * value


@pytest.mark.parametrize("lambda_", [0.5, 1.0])
def test_on_policy_targets_are_lambda_returns(lambda_):
  inputs = make_inputs(0)
  inputs["log_ratio"][:] = 0.0
  found = targets(inputs, lambda_)
  for b, t in find_steps(inputs["ended"]):
    expected = lambda_return(inputs, b, t, lambda_)
    np.testing.assert_allclose(found[b, t], expected, atol=1e-12)


def test_on_policy_targets_with_exact_values_are_returns():
  """If q(o_t, a_t) = v(o_t), errors telescope to rewards and a bootstrap."""
  inputs = make_inputs(0)
  inputs["log_ratio"][:] = 0.0
  inputs["q"][:, 1:] = inputs["next_values"][:, :-1]
  found = targets(inputs, 1.0)
  for b, t in find_steps(inputs["ended"]):
    ends = np.nonzero(inputs["ended"][b, t:])[0]
    last = t + ends[0] if len(ends) else STEPS - 1
    powers = GAMMA ** np.arange(last + 1 - t)
    expected = (powers * inputs["reward"][b, t : last + 1]).sum()
    if inputs["discount"][b, last]:
      expected += GAMMA * powers[-1] * inputs["next_values"][b, last]
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


def test_the_first_actions_ratio_has_no_effect():
  inputs = make_inputs(0)
  other = {**inputs, "log_ratio": inputs["log_ratio"].copy()}
  other["log_ratio"][:, 0] -= 3.0
  np.testing.assert_array_equal(targets(inputs, 0.9), targets(other, 0.9))


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
  watched = {
    name: tf.constant(inputs.pop(name))
    for name in ("reward", "q", "next_values", "log_ratio")
  }
  with tf.GradientTape() as tape:
    tape.watch(watched)
    found = retrace.retrace_targets(**inputs, **watched, lambda_=0.9)
  assert set(tape.gradient(found, watched).values()) == {None}


@pytest.mark.parametrize(
  "name", ["reward", "discount", "ended", "q", "next_values", "log_ratio"]
)
def test_inputs_of_a_wrong_rank_name_the_argument(name):
  inputs = make_inputs(0)
  inputs[name] = inputs[name][0]
  with pytest.raises(ValueError, match=f"{name} must have rank 2"):
    targets(inputs, lambda_=0.9)
