"""Tests of policy losses against the papers' sums, step by step."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import policy_gradient
from tests.agents.losses import checks

N, CLIP = 24, 0.2


def make_steps(seed, spread):
  random = np.random.default_rng(seed)
  behaviour = random.normal(size=N) - 1
  return {
    "log_prob": behaviour + spread * random.normal(size=N),
    "old_log_prob": behaviour,
    "advantage": random.normal(size=N),
  }


def slow_clipped(inputs):
  """Returns the clipped losses of Schulman et al. 2017, equation 7."""
  losses = []
  for new, old, advantage in zip(
    inputs["log_prob"], inputs["old_log_prob"], inputs["advantage"], strict=True
  ):
    ratio = np.exp(new) / np.exp(old)
    bounded = min(max(ratio, 1 - CLIP), 1 + CLIP)
    losses.append(-min(ratio * advantage, bounded * advantage))
  return np.array(losses)


def clipped_loss(inputs, slow):
  if slow:
    return slow_clipped(inputs)
  return policy_gradient.clipped_policy(**inputs, clip=CLIP).loss


def test_the_clipped_loss_equals_the_slow_one():
  inputs = make_steps(0, spread=0.4)
  found = policy_gradient.clipped_policy(**checks.to_tensors(inputs), clip=CLIP)
  np.testing.assert_allclose(found.loss, slow_clipped(inputs), rtol=1e-9)
  ratio = np.exp(inputs["log_prob"] - inputs["old_log_prob"])
  outside = (ratio < 1 - CLIP) | (ratio > 1 + CLIP)
  assert 0 < outside.sum() < N
  np.testing.assert_array_equal(found.clipped, outside)


# At a ratio of one, the loss is that of the policy gradient.
@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_only_the_new_log_prob_has_a_gradient(spread):
  inputs = make_steps(0, spread)
  checks.check_gradients(clipped_loss, inputs, "log_prob")
  found, _ = checks.gradients(clipped_loss, inputs, "log_prob")
  if spread:
    assert (found == 0).any()
  else:
    np.testing.assert_allclose(found, -inputs["advantage"], rtol=1e-9)
  clipped = functools.partial(policy_gradient.clipped_policy, clip=CLIP)
  checks.check_ranks(clipped, inputs)


def test_the_policy_gradient():
  def loss_of(inputs, slow):
    if slow:
      return -inputs["advantage"] * inputs["log_prob"]
    return policy_gradient.policy_gradient(**inputs)

  inputs = make_steps(0, 0.1)
  del inputs["old_log_prob"]
  checks.check_gradients(loss_of, inputs, "log_prob")


ETA, ALPHA, ETA_BOUND, ALPHA_BOUND = 0.7, [2.0, 3.0], 0.02, [0.1, 0.05]


def make_vmpo(seed):
  random = np.random.default_rng(seed)
  return {
    "log_prob": random.normal(size=N) - 1,
    "advantage": random.normal(size=N),
    "kl": random.random(size=(N, 2)),
    "learned": (random.random(N) < 0.8).astype(float),
    "temperature": np.array(ETA),
    "multipliers": np.array(ALPHA),
  }


def slow_vmpo(inputs):
  """Returns the sum of three losses: Song et al. 2019, equations 3 to 5.

  Also returns the weights of the policy's loss, by step.
  """
  steps = [i for i in range(N) if inputs["learned"][i]]
  best = sorted(steps, key=lambda i: -inputs["advantage"][i])[: len(steps) // 2]
  eta = inputs["temperature"]
  weights = {i: np.exp(inputs["advantage"][i] / ETA) for i in best}
  total = sum(weights.values())
  policy = -sum(weights[i] / total * inputs["log_prob"][i] for i in best)
  mean = sum(np.exp(inputs["advantage"][i] / eta) for i in best) / len(best)
  temperature = eta * ETA_BOUND + eta * np.log(mean)
  kl = sum(
    ALPHA[k] * inputs["kl"][i, k]
    + inputs["multipliers"][k] * (ALPHA_BOUND[k] - KL[i, k])
    for i in steps
    for k in range(2)
  ) / len(steps)
  return policy + temperature + kl, {i: w / total for i, w in weights.items()}


KL = make_vmpo(1)["kl"]


def vmpo(inputs):
  return policy_gradient.vmpo(
    **inputs,
    temperature_bound=ETA_BOUND,
    kl_bounds=tf.constant(ALPHA_BOUND, tf.float64),
  )


def vmpo_loss(inputs, slow):
  if slow:
    return np.array([slow_vmpo(inputs)[0]])
  found = vmpo(inputs)
  return found.policy_loss + found.temperature_loss + found.kl_loss


def test_vmpo_equals_the_slow_sum_on_exactly_the_top_half():
  inputs = make_vmpo(1)
  found = vmpo(checks.to_tensors(inputs))
  total, weights = slow_vmpo(inputs)
  expected = np.zeros(N)
  expected[list(weights)] = list(weights.values())
  np.testing.assert_allclose(found.weights, expected, rtol=1e-9)
  learned = int(inputs["learned"].sum())
  assert np.count_nonzero(found.weights) == learned // 2 < N // 2
  sums = found.policy_loss + found.temperature_loss + found.kl_loss
  np.testing.assert_allclose(sums, total, rtol=1e-9)


def test_with_equal_advantages_half_of_the_steps_is_used():
  inputs = make_vmpo(1) | {"advantage": np.zeros(N), "learned": np.ones(N)}
  found = vmpo(checks.to_tensors(inputs))
  assert np.count_nonzero(found.weights) == N // 2
  np.testing.assert_allclose(found.weights.numpy().sum(), 1.0)


@pytest.mark.parametrize("learned", [0, 1])
def test_without_a_top_half_vmpo_learns_no_temperature(learned):
  inputs = make_vmpo(1) | {"learned": np.eye(N)[0] * learned}
  inputs = checks.to_tensors(inputs)
  with tf.GradientTape() as tape:
    tape.watch(list(inputs.values()))
    loss = vmpo_loss(inputs, slow=False)
  gradients = tape.gradient(loss, inputs)
  assert gradients["temperature"] == 0
  for name in ("log_prob", "kl", "multipliers"):
    assert np.isfinite(gradients[name]).all()


def test_the_gradients_of_vmpo():
  """The advantages have none."""
  inputs = make_vmpo(1)
  learned = inputs.pop("learned")

  def loss_of(inputs, slow):
    return vmpo_loss({**inputs, "learned": learned}, slow)

  names = ("log_prob", "temperature", "multipliers", "kl")
  checks.check_gradients(loss_of, inputs, *names)
