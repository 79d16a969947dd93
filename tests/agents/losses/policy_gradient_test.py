"""Advantages and clipped policies against the papers' sums, step by step."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import policy_gradient
from tests.agents.losses import checks

BATCH, STEPS, GAMMA = 6, 12, 0.9


def make_rollouts(seed):
  """Rollouts with several ends each: terminated, truncated, autoresets."""
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
  """Steps [B, T] that follow an episode's last one in the window."""
  found = np.zeros_like(ended)
  found[:, 1:] = ended[:, :-1]
  return found


def slow_advantage(inputs, b, t, lambda_):
  """Schulman et al. 2016, equation 16: a sum over the rest of the episode.

  It knows of `terminated` and of the episode's end, not of `discount`.
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
  tensors = {
    name: tf.constant(x, tf.bool if name == "ended" else tf.float64)
    for name, x in inputs.items()
  }
  return policy_gradient.generalized_advantages(**tensors, lambda_=lambda_)


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_advantages_equal_the_slow_sum(seed, lambda_):
  inputs = make_rollouts(seed)
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


def one_rollout(truncated):
  """Rewards 1, 2 of an episode, its autoreset, and 4 of the next episode."""
  return {
    "reward": np.array([[1.0, 2.0, 100.0, 4.0]]),
    "discount": np.array([[0.5, 0.5 * truncated, 0.5, 0.5]]),
    "ended": np.array([[False, True, False, False]]),
    "values": np.array([[10.0, 20.0, 30.0, 40.0, 50.0]]),
  }


def test_a_truncated_episode_bootstraps_from_its_true_last_observation():
  found = advantages(one_rollout(truncated=True), lambda_=1.0)
  np.testing.assert_allclose(
    found.returns.numpy()[0, :2],
    [1 + 0.5 * (2 + 0.5 * 30), 2 + 0.5 * 30],
  )
  np.testing.assert_allclose(found.returns.numpy()[0, 3], 4 + 0.5 * 50)


def test_a_terminated_episode_has_no_bootstrap():
  found = advantages(one_rollout(truncated=False), lambda_=1.0)
  np.testing.assert_allclose(found.returns.numpy()[0, :2], [1 + 0.5 * 2, 2])


@pytest.mark.parametrize("truncated", [False, True])
def test_nothing_leaks_over_the_end_of_an_episode(truncated):
  inputs = one_rollout(truncated)
  later = {name: x.copy() for name, x in inputs.items()}
  later["reward"][0, 2:] = -7.0  # of the autoreset and of the next episode
  later["values"][0, 3:] = -9.0
  expected, found = (advantages(x, lambda_=0.9) for x in (inputs, later))
  np.testing.assert_array_equal(
    found.advantages[:, :2], expected.advantages[:, :2]
  )
  assert (found.advantages[:, 3] != expected.advantages[:, 3]).numpy().all()


def test_values_get_no_gradient():
  inputs = make_rollouts(0)
  values = tf.constant(inputs.pop("values"))
  with tf.GradientTape() as tape:
    tape.watch(values)
    found = policy_gradient.generalized_advantages(
      **inputs, values=values, lambda_=0.9
    )
  assert tape.gradient(tuple(found), values) is None


N, CLIP = 24, 0.2


def make_steps(seed, spread):
  random = np.random.default_rng(seed)
  behaviour = random.normal(size=N) - 1
  return {
    "log_prob": behaviour + spread * random.normal(size=N),
    "behaviour_log_prob": behaviour,
    "advantage": random.normal(size=N),
  }


def slow_clipped(inputs):
  """Schulman et al. 2017, equation 7."""
  losses = []
  for new, old, advantage in zip(
    inputs["log_prob"],
    inputs["behaviour_log_prob"],
    inputs["advantage"],
    strict=True,
  ):
    ratio = np.exp(new) / np.exp(old)
    bounded = min(max(ratio, 1 - CLIP), 1 + CLIP)
    losses.append(-min(ratio * advantage, bounded * advantage))
  return np.array(losses)


def clipped_loss(inputs, slow):
  if slow:
    return slow_clipped(inputs)
  return policy_gradient.clipped_policy(**inputs, clip=CLIP).loss


@pytest.mark.parametrize("seed", range(3))
def test_the_clipped_loss_equals_the_slow_one(seed):
  inputs = make_steps(seed, spread=0.4)
  found = policy_gradient.clipped_policy(**checks.to_tensors(inputs), clip=CLIP)
  np.testing.assert_allclose(found.loss, slow_clipped(inputs), rtol=1e-9)
  ratio = np.exp(inputs["log_prob"] - inputs["behaviour_log_prob"])
  outside = (ratio < 1 - CLIP) | (ratio > 1 + CLIP)
  assert 0 < outside.sum() < N
  np.testing.assert_array_equal(found.clipped, outside)
  np.testing.assert_allclose(found.kl, ratio - 1 - np.log(ratio), atol=1e-12)
  assert (found.kl.numpy() >= 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_the_clipped_loss(seed):
  inputs = make_steps(seed, spread=0.4)
  found, expected = checks.gradients(clipped_loss, inputs, "log_prob")
  np.testing.assert_allclose(found, expected, atol=1e-6)
  assert (found == 0).any() and (found != 0).any()


def test_at_a_ratio_of_one_it_is_the_policy_gradient():
  inputs = make_steps(0, spread=0.0)
  found, expected = checks.gradients(clipped_loss, inputs, "log_prob")
  np.testing.assert_allclose(found, -inputs["advantage"], rtol=1e-9)
  np.testing.assert_allclose(found, expected, atol=1e-6)


def test_gradients_flow_into_the_new_log_prob_only():
  assert checks.flows(clipped_loss, make_steps(0, 0.1)) == {"log_prob"}


@pytest.mark.parametrize("name", ["reward", "discount", "ended", "values"])
def test_rollouts_of_a_wrong_rank_name_the_argument(name):
  inputs = make_rollouts(0)
  inputs[name] = inputs[name][0]
  with pytest.raises(ValueError, match=f"{name} must have rank 2"):
    advantages(inputs, lambda_=0.9)


@pytest.mark.parametrize(
  "name", ["log_prob", "behaviour_log_prob", "advantage"]
)
def test_steps_of_a_wrong_rank_name_the_argument(name):
  inputs = make_steps(0, 0.1)
  inputs[name] = inputs[name][:, None]
  with pytest.raises(ValueError, match=f"{name} must have rank 1"):
    policy_gradient.clipped_policy(**checks.to_tensors(inputs), clip=CLIP)
