"""Tests of advantages against the papers' sums, step by step."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import advantages as advantages_lib
from slipway.agents.losses import policy_gradient
from tests.agents.losses import checks

BATCH, STEPS, GAMMA = 6, 12, 0.9


def make_rollouts(seed):
  """Returns rollouts with several episode ends and autoresets each."""
  random = np.random.default_rng(seed)
  ended = np.zeros((BATCH, STEPS), bool)
  for t in range(STEPS):
    reset = ended[:, t - 1] if t else np.zeros(BATCH, bool)
    ended[:, t] = ~reset & (random.random(BATCH) < 0.35)
  terminated = ended & (random.random((BATCH, STEPS)) < 0.5)
  return {
    "reward": random.normal(size=(BATCH, STEPS)),
    "discount": GAMMA * ~terminated,
    "ended": ended,
    "values": random.normal(size=(BATCH, STEPS + 1)),
  }


def is_reset(ended):
  """Returns whether a step is an autoreset, as it follows an end, [B, T]."""
  found = np.zeros_like(ended)
  found[:, 1:] = ended[:, :-1]
  return found


def slow_advantage(inputs, b, t, lambda_):
  """Returns an advantage by a sum: Schulman et al. 2016, equation 16.

  It uses terminations and episode ends instead of `discount`.
  """
  total, weight = 0.0, 1.0
  for i in range(t, STEPS):
    terminated = inputs["discount"][b, i] == 0
    bootstrap = 0.0 if terminated else inputs["values"][b, i + 1]
    delta = inputs["reward"][b, i] + GAMMA * bootstrap - inputs["values"][b, i]
    total += weight * delta
    weight *= GAMMA * lambda_
    if inputs["ended"][b, i]:
      break
  return total


def advantages(inputs, lambda_):
  return advantages_lib.generalized_advantages(
    **checks.to_tensors(inputs), lambda_=lambda_
  )


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
def test_advantages_equal_the_slow_sum(lambda_):
  inputs = make_rollouts(0)
  ends = inputs["ended"].sum(axis=1)
  assert ends.max() >= 2
  found = advantages(inputs, lambda_)
  steps = ~is_reset(inputs["ended"])
  for b, t in zip(*np.nonzero(steps), strict=True):
    expected = slow_advantage(inputs, b, t, lambda_)
    np.testing.assert_allclose(found.advantages[b, t], expected, atol=1e-12)
    np.testing.assert_allclose(
      found.returns[b, t], expected + inputs["values"][b, t], atol=1e-12
    )


@pytest.mark.parametrize("truncated", [False, True])
def test_only_a_truncated_episode_bootstraps_and_nothing_leaks(truncated):
  inputs = {  # an episode's end, its autoreset, and the next episode's step
    "reward": np.array([[1.0, 2.0, 100.0, 4.0]]),
    "discount": np.array([[0.5, 0.5 * truncated, 0.5, 0.5]]),
    "ended": np.array([[False, True, False, False]]),
    "values": np.array([[10.0, 20.0, 30.0, 40.0, 50.0]]),
  }
  returns = advantages(inputs, lambda_=1.0).returns.numpy()[0]
  last = 2 + 0.5 * 30 * truncated  # from the true last observation
  np.testing.assert_allclose(returns[:2], [1 + 0.5 * last, last])
  np.testing.assert_allclose(returns[3], 4 + 0.5 * 50)
  inputs["reward"][0, 2:], inputs["values"][0, 3:] = -7.0, -9.0
  later = advantages(inputs, lambda_=1.0).returns.numpy()[0]
  np.testing.assert_array_equal(later[:2], returns[:2])


def make_ratios(seed, spread=0.7):
  random = np.random.default_rng(100 + seed)
  return spread * random.normal(size=(BATCH, STEPS))


def slow_vtrace(inputs, log_ratio, b, t, lambda_, max_rho, max_c):
  """Returns a V-trace target by a sum: Espeholt et al. 2018, equation 1."""
  values, total, weight = inputs["values"][b], inputs["values"][b, t], 1.0
  for i in range(t, STEPS):
    ratio = np.exp(log_ratio[b, i])
    terminated = inputs["discount"][b, i] == 0
    bootstrap = 0.0 if terminated else values[i + 1]
    delta = inputs["reward"][b, i] + GAMMA * bootstrap - values[i]
    total += weight * min(max_rho, ratio) * delta
    weight *= GAMMA * lambda_ * min(max_c, ratio)
    if inputs["ended"][b, i]:
      break
  return total


def vtrace(inputs, log_ratio, **kwargs):
  return advantages_lib.vtrace(
    **checks.to_tensors(inputs), log_ratio=tf.constant(log_ratio), **kwargs
  )


@pytest.mark.parametrize(
  ("lambda_", "max_rho", "max_c"), [(1.0, 1.0, 1.0), (0.9, 2.0, 0.7)]
)
def test_vtrace_equals_the_slow_sum(lambda_, max_rho, max_c):
  inputs, log_ratio = make_rollouts(0), make_ratios(0)
  bounds = {"lambda_": lambda_, "max_rho": max_rho, "max_c": max_c}
  found, weights = vtrace(inputs, log_ratio, **bounds)

  def target(b, t):
    return slow_vtrace(inputs, log_ratio, b, t, **bounds)

  for b, t in zip(*np.nonzero(~is_reset(inputs["ended"])), strict=True):
    np.testing.assert_allclose(found.returns[b, t], target(b, t), atol=1e-12)
    is_last = inputs["ended"][b, t] or t == STEPS - 1
    value = inputs["values"][b, t + 1]
    later = value if is_last else target(b, t + 1)
    later = lambda_ * later + (1 - lambda_) * value
    expected = (
      inputs["reward"][b, t]
      + inputs["discount"][b, t] * later
      - inputs["values"][b, t]
    )
    rho = min(max_rho, np.exp(log_ratio[b, t]))
    np.testing.assert_allclose(weights[b, t], rho, rtol=1e-12)
    np.testing.assert_allclose(found.advantages[b, t], expected, atol=1e-12)


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
def test_vtrace_of_on_policy_rollouts_has_lambda_returns(lambda_):
  inputs = make_rollouts(0)
  found, _ = vtrace(inputs, np.zeros((BATCH, STEPS)), lambda_=lambda_)
  expected = advantages(inputs, lambda_)
  steps = ~is_reset(inputs["ended"])
  np.testing.assert_allclose(
    found.returns[steps], expected.returns[steps], atol=1e-12
  )
  np.testing.assert_allclose(
    found.advantages[steps], expected.advantages[steps], atol=1e-12
  )


ESTIMATORS = {
  "gae": functools.partial(advantages_lib.generalized_advantages, lambda_=0.9),
  "vtrace": advantages_lib.vtrace,
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_values_and_ratios_get_no_gradient(estimator):
  def estimate(inputs, slow):
    del slow
    ended = tf.cast(inputs["ended"], tf.bool)
    return ESTIMATORS[estimator](**{**inputs, "ended": ended})

  inputs = make_rollouts(0)
  if estimator == "vtrace":
    inputs["log_ratio"] = make_ratios(0)
  assert checks.find_inputs_with_gradient(estimate, inputs) == {
    "reward",
    "discount",
  }


def test_vtraces_losses_have_constant_targets_and_behaviour():
  """The gradients of policy and values are -rho A and v - G."""
  inputs = make_rollouts(0)
  log_prob, behaviour = (tf.constant(make_ratios(seed)) for seed in (0, 1))
  values = tf.constant(inputs.pop("values"))
  with tf.GradientTape() as tape:
    tape.watch([log_prob, behaviour, values])
    found, rho = vtrace({**inputs, "values": values}, log_prob - behaviour)
    policy_losses = policy_gradient.policy_gradient(
      *(tf.reshape(x, [-1]) for x in (log_prob, rho * found.advantages))
    )
    errors = values[:, :-1] - found.returns
    losses = tf.reduce_sum(policy_losses) + 0.5 * tf.reduce_sum(errors**2)
  of_policy, of_behaviour, of_values = tape.gradient(
    losses, [log_prob, behaviour, values]
  )
  assert of_behaviour is None
  np.testing.assert_allclose(of_policy.numpy(), -rho * found.advantages)
  np.testing.assert_allclose(of_values.numpy()[:, :-1], errors)
  # The last value is used only as the bootstrap of targets.
  np.testing.assert_array_equal(of_values.numpy()[:, -1], np.zeros(BATCH))


@pytest.mark.parametrize("steps", [1, 2, 3, 31, 64, 100])
def test_rollouts_have_any_length(steps):
  random = np.random.default_rng(steps)
  reward = random.normal(size=(2, steps))
  found = advantages_lib.generalized_advantages(
    tf.constant(reward),
    tf.fill([2, steps], tf.constant(GAMMA, tf.float64)),
    tf.zeros([2, steps], tf.bool),
    tf.zeros([2, steps + 1], tf.float64),
    1.0,
  )
  powers = GAMMA ** np.arange(steps)
  expected = [
    (reward[:, t:] * powers[: steps - t]).sum(1) for t in range(steps)
  ]
  np.testing.assert_allclose(found.returns, np.stack(expected, 1), atol=1e-12)


def test_wrong_ranks_are_rejected():
  checks.check_ranks(ESTIMATORS["gae"], make_rollouts(0))
