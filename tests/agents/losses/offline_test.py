"""Tests of the losses of recorded actions, against slow sums in float64."""

import math

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import offline
from tests.agents.losses import checks

BATCH = 9


def make_inputs(*names, shape=(BATCH,)):
  random = np.random.default_rng(0)
  return {name: 2.0 * random.normal(size=shape) for name in names}


def expectile_loss(inputs, slow, expectile=0.8):
  if not slow:
    return offline.expectile_loss(**inputs, expectile=expectile)
  errors = inputs["target"] - inputs["value"]
  return np.array(
    [(expectile if u > 0 else 1 - expectile) * u * u for u in errors]
  )


@pytest.mark.parametrize("expectile", [0.3, 0.8])
def test_the_expectile_loss_equals_the_papers(expectile):
  inputs = make_inputs("value", "target")
  found = expectile_loss(checks.to_tensors(inputs), False, expectile)
  np.testing.assert_allclose(found, expectile_loss(inputs, True, expectile))
  checks.check_gradients(expectile_loss, inputs, "value")


def test_half_an_expectile_is_half_the_squared_error():
  inputs = make_inputs("value", "target")
  found = expectile_loss(checks.to_tensors(inputs), False, 0.5)
  expected = 0.5 * (inputs["target"] - inputs["value"]) ** 2
  np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("kind", "largest"), [("exp", 3.0), ("binary", 1.0)])
def test_the_weights_of_advantages_equal_the_papers(kind, largest):
  advantages = np.array([-1e9, -2.0, -0.1, 0.0, 0.1, 0.3, 2.0, 1e9])
  found = offline.advantage_weights(tf.constant(advantages), kind, 0.5, largest)
  expected = []
  for advantage in advantages:
    if kind == "binary":
      expected.append(float(advantage > 0))
    elif advantage > 0.5 * math.log(largest):
      expected.append(largest)
    else:
      expected.append(math.exp(advantage / 0.5))
  np.testing.assert_allclose(found, expected)


def behaviour_loss(inputs, slow):
  if not slow:
    error = offline.imitation_error(inputs["action"], inputs["recorded"])
    value = tf.reduce_sum(inputs["slopes"] * inputs["action"], axis=1)
    return offline.behaviour_regularized_loss(value, error, 0.4)
  action, recorded, size = (inputs[x] for x in ("action", "recorded", "size"))
  losses = []
  for i in range(BATCH):
    error = sum((action[i, k] - recorded[i, k]) ** 2 for k in range(3)) / 3
    value = sum(inputs["slopes"][i, k] * action[i, k] for k in range(3))
    losses.append(0.4 * error - value / size)
  return np.array(losses)


def test_the_loss_near_recorded_actions_equals_the_papers():
  """The size of the values is a constant, of which there is no gradient."""
  inputs = make_inputs("action", "recorded", "slopes", shape=(BATCH, 3))
  values = (inputs["slopes"] * inputs["action"]).sum(axis=1)
  inputs["size"] = np.abs(values).mean()
  found = behaviour_loss(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, behaviour_loss(inputs, slow=True))
  gradient, expected = checks.gradients(behaviour_loss, inputs, "action")
  np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


def conservative(inputs, slow):
  if not slow:
    return offline.conservative(**inputs)
  q, samples, log_density = inputs.values()
  penalties = np.zeros(BATCH)
  for b in range(BATCH):
    for c in range(2):
      total = 0.0
      for n in range(5):
        total += math.exp(samples[n, b, c]) / math.exp(log_density[n, b]) / 5
      penalties[b] += math.log(total) - q[b, c]
  return penalties


def test_the_conservative_penalty_equals_the_papers():
  inputs = {
    **make_inputs("q_tm1", shape=(BATCH, 2)),
    **make_inputs("q_samples", shape=(5, BATCH, 2)),
    **make_inputs("log_density", shape=(5, BATCH)),
  }
  found = conservative(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, conservative(inputs, slow=True))
  checks.check_gradients(conservative, inputs, "q_tm1", "q_samples")


def cloning_loss(inputs, slow):
  if not slow:
    return offline.cloning_loss(**inputs)
  chosen = zip(inputs["logits"], inputs["recorded"], strict=True)
  return np.array([math.log(sum(map(math.exp, x))) - x[a] for x, a in chosen])


def test_the_cloning_loss_is_the_negative_log_likelihood():
  inputs = make_inputs("logits", shape=(BATCH, 4))
  inputs["recorded"] = np.arange(BATCH) % 4
  found = cloning_loss(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, cloning_loss(inputs, slow=True))
  checks.check_gradients(cloning_loss, inputs, "logits")


def autoencoder_loss(inputs, slow):
  if not slow:
    return offline.autoencoder_loss(**inputs)
  losses = []
  for error, mean, log_std in zip(*inputs.values(), strict=True):
    kl = 0.0  # of two normal distributions
    for m, s in zip(mean, np.exp(log_std), strict=True):
      kl += (math.log(1 / s) + (s**2 + m**2) / 2 - 1 / 2) / len(mean)
    losses.append(error + 0.5 * kl)
  return np.array(losses)


def test_the_autoencoders_loss_has_the_divergence_of_normal_distributions():
  inputs = {
    **make_inputs("error"),
    **make_inputs("mean", "log_std", shape=(BATCH, 4)),
  }
  found = autoencoder_loss(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, autoencoder_loss(inputs, slow=True))
  checks.check_gradients(autoencoder_loss, inputs, "error", "mean", "log_std")


@pytest.mark.parametrize("weight", [0.0, 0.75, 1.0])
def test_the_value_of_the_best_action_equals_the_papers(weight):
  values = make_inputs("values", shape=(5, BATCH, 3))["values"]
  found = offline.best_value(tf.constant(values), weight)
  for b in range(BATCH):
    mixed = [
      weight * min(values[n, b]) + (1 - weight) * max(values[n, b])
      for n in range(5)
    ]
    assert float(found[b]) == pytest.approx(max(mixed))
