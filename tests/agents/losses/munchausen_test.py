"""Tests of the Munchausen loss against the paper's sums, action by action."""

import numpy as np
import pytest

from slipway.agents.losses import munchausen, q_learning
from tests.agents.losses import checks

BATCH, ACTIONS = 6, 4
HYPERPARAMETERS = {
  "temperature": 0.3,
  "scale": 0.9,
  "lowest": -1.0,
  "huber_delta": 1.0,
}


def make_inputs(seed):
  random = np.random.default_rng(seed)
  return {
    "q_tm1": random.normal(size=(BATCH, ACTIONS)),
    "a_tm1": random.integers(0, ACTIONS, BATCH),
    "r_t": random.normal(size=BATCH),
    "discount_t": np.where(random.random(BATCH) < 0.3, 0.0, 0.99),
    "q_tm1_target": random.normal(size=(BATCH, ACTIONS)),
    "q_t": random.normal(size=(BATCH, ACTIONS)),
  }


def policy(q, temperature):
  e = [np.exp((x - max(q)) / temperature) for x in q]
  return [x / sum(e) for x in e]


def slow_loss(inputs, temperature, scale, lowest, huber_delta):
  losses, errors = [], []
  for b in range(BATCH):
    a = inputs["a_tm1"][b]
    pi_tm1 = policy(inputs["q_tm1_target"][b], temperature)
    pi_t = policy(inputs["q_t"][b], temperature)
    bonus = min(max(temperature * np.log(pi_tm1[a]), lowest), 0.0)
    soft = sum(
      pi_t[k] * (inputs["q_t"][b, k] - temperature * np.log(pi_t[k]))
      for k in range(ACTIONS)
    )
    target = inputs["r_t"][b] + scale * bonus + inputs["discount_t"][b] * soft
    error = target - inputs["q_tm1"][b, a]
    size = abs(error)
    losses.append(
      0.5 * error**2
      if size <= huber_delta
      else huber_delta * (size - 0.5 * huber_delta)
    )
    errors.append(error)
  return np.array(losses), np.array(errors)


def loss_of(inputs, slow):
  if slow:
    return slow_loss(inputs, **HYPERPARAMETERS)[0]
  return munchausen.munchausen_q_learning(**inputs, **HYPERPARAMETERS).loss


@pytest.mark.parametrize("lowest", [-0.1, -1.0, -100.0])
@pytest.mark.parametrize("temperature", [0.03, 1.0])
def test_loss_and_error_equal_the_slow_sum(temperature, lowest):
  inputs = make_inputs(0)
  hyperparameters = {
    **HYPERPARAMETERS,
    "temperature": temperature,
    "lowest": lowest,
  }
  output = munchausen.munchausen_q_learning(
    **checks.to_tensors(inputs), **hyperparameters
  )
  loss, error = slow_loss(inputs, **hyperparameters)
  np.testing.assert_allclose(output.loss, loss, atol=1e-6)
  np.testing.assert_allclose(output.td_error, error, atol=1e-6)


def test_only_the_online_values_have_a_gradient():
  checks.check_gradients(loss_of, make_inputs(0), "q_tm1")


def test_without_bonus_at_a_low_temperature_it_is_q_learning():
  inputs = checks.to_tensors(make_inputs(2))
  found = munchausen.munchausen_q_learning(
    **inputs, **{**HYPERPARAMETERS, "temperature": 1e-4, "scale": 0.0}
  )
  inputs.pop("q_tm1_target")
  plain = q_learning.q_learning(
    **inputs, q_t_selector=inputs["q_t"], huber_delta=1.0
  )
  np.testing.assert_allclose(found.td_error, plain.td_error, atol=1e-3)
