"""The losses of soft actor-critic against the paper's sums, item by item."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import soft_actor_critic
from tests.agents.losses import checks

BATCH, CRITICS = 9, 2
TEMPERATURE = 0.3


def make_inputs(seed):
  random = np.random.default_rng(seed)
  terminated = random.random(BATCH) < 0.4
  return {
    "r_t": random.normal(size=BATCH),
    "discount_t": 0.9 * ~terminated,
    "q_t": random.normal(size=(BATCH, CRITICS)),
    "log_prob_t": random.normal(size=BATCH),
    "q_tm1": random.normal(size=(BATCH, CRITICS)),
    "temperature": np.array(TEMPERATURE),
  }


TARGET = ("r_t", "discount_t", "q_t", "log_prob_t", "temperature")


def slow_target(inputs):
  """Haarnoja et al. 2018, equations 5 and 8."""
  targets = []
  for i in range(BATCH):
    soft = min(inputs["q_t"][i]) - TEMPERATURE * inputs["log_prob_t"][i]
    targets.append(inputs["r_t"][i] + inputs["discount_t"][i] * soft)
  return np.array(targets)


def critic_loss(inputs, slow):
  if slow:
    targets = slow_target(inputs)
    return np.array(
      [
        sum(0.5 * (q - targets[i]) ** 2 for q in inputs["q_tm1"][i])
        for i in range(BATCH)
      ]
    )
  target = soft_actor_critic.soft_target(**{x: inputs[x] for x in TARGET})
  return soft_actor_critic.critic_loss(inputs["q_tm1"], target).loss


@pytest.mark.parametrize("seed", range(3))
def test_the_critics_targets_and_loss_equal_the_slow_ones(seed):
  inputs = make_inputs(seed)
  tensors = checks.to_tensors(inputs)
  target = soft_actor_critic.soft_target(**{x: tensors[x] for x in TARGET})
  np.testing.assert_allclose(target, slow_target(inputs), rtol=1e-9)
  found = soft_actor_critic.critic_loss(tensors["q_tm1"], target)
  np.testing.assert_allclose(found.loss, critic_loss(inputs, slow=True))
  errors = slow_target(inputs)[:, None] - inputs["q_tm1"]
  np.testing.assert_allclose(found.td_error, errors.mean(axis=1))


def test_the_gradient_of_the_critics_loss():
  found, expected = checks.gradients(critic_loss, make_inputs(0), "q_tm1")
  np.testing.assert_allclose(found, expected, atol=1e-6)


def test_no_gradient_flows_into_targets():
  assert checks.flows(critic_loss, make_inputs(0)) == {"q_tm1"}


def policy_inputs(seed):
  random = np.random.default_rng(seed)
  return {
    "q": random.normal(size=(BATCH, CRITICS)),
    "log_prob": random.normal(size=BATCH),
    "temperature": np.array(TEMPERATURE),
  }


def policy_loss(inputs, slow):
  if slow:
    return np.array(
      [
        TEMPERATURE * inputs["log_prob"][i] - min(inputs["q"][i])
        for i in range(BATCH)
      ]
    )
  return soft_actor_critic.policy_loss(**inputs)


def test_the_policys_loss_equals_the_slow_one():
  inputs = policy_inputs(0)
  found = policy_loss(checks.to_tensors(inputs), slow=False)
  np.testing.assert_allclose(found, policy_loss(inputs, slow=True))
  for name in ("q", "log_prob"):
    gradient, expected = checks.gradients(policy_loss, inputs, name)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_the_policys_loss_does_not_change_the_temperature():
  assert checks.flows(policy_loss, policy_inputs(0)) == {"q", "log_prob"}


@pytest.mark.parametrize(("entropy", "falls"), [(5.0, True), (-5.0, False)])
def test_the_temperature_falls_where_entropy_is_above_its_target(
  entropy, falls
):
  log_temperature = tf.constant(0.2, tf.float64)
  log_prob = tf.constant([-entropy - 1, -entropy + 1], tf.float64)
  with tf.GradientTape() as tape:
    tape.watch([log_temperature, log_prob])
    loss = soft_actor_critic.temperature_loss(
      log_temperature, log_prob, target_entropy=1.0
    )
  np.testing.assert_allclose(loss, -0.2 * (log_prob.numpy() + 1.0))
  gradient, other = tape.gradient(loss, [log_temperature, log_prob])
  assert (gradient.numpy() > 0) == falls
  assert other is None


@pytest.mark.parametrize("name", ["r_t", "discount_t", "q_t", "log_prob_t"])
def test_a_wrong_rank_names_the_argument(name):
  tensors = checks.to_tensors(make_inputs(0))
  tensors[name] = tf.zeros([BATCH, 1, 1])
  with pytest.raises(ValueError, match=f"{name} must have rank"):
    soft_actor_critic.soft_target(**{x: tensors[x] for x in TARGET})
