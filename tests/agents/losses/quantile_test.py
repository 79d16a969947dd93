"""Tests of the quantile loss against the papers' sums, pair by pair."""

import numpy as np
import pytest

from slipway.agents.losses import quantile
from tests.agents.losses import checks

BATCH, ACTIONS, ONLINE, TARGET = 5, 3, 6, 4


def make_inputs(seed, sampled=True):
  random = np.random.default_rng(seed)
  taus = random.random((BATCH, ONLINE))
  return {
    "quantiles_tm1": 2 * random.normal(size=(BATCH, ACTIONS, ONLINE)),
    "taus": taus if sampled else (np.arange(ONLINE) + 0.5) / ONLINE,
    "a_tm1": random.integers(0, ACTIONS, BATCH),
    "r_t": random.normal(size=BATCH),
    "discount_t": np.where(random.random(BATCH) < 0.3, 0.0, 0.97),
    "quantiles_t": 2 * random.normal(size=(BATCH, ACTIONS, TARGET)),
    "q_t_selector": random.normal(size=(BATCH, ACTIONS)),
  }


def slow_loss(inputs, kappa):
  losses, errors = [], []
  taus = np.broadcast_to(inputs["taus"], (BATCH, ONLINE))
  for b in range(BATCH):
    best = int(np.argmax(inputs["q_t_selector"][b]))
    online = inputs["quantiles_tm1"][b, inputs["a_tm1"][b]]
    targets = [
      inputs["r_t"][b] + inputs["discount_t"][b] * z
      for z in inputs["quantiles_t"][b, best]
    ]
    loss = 0.0
    for i in range(ONLINE):
      for target in targets:
        u = target - online[i]
        huber = 0.5 * u**2
        if abs(u) > kappa:
          huber = kappa * (abs(u) - 0.5 * kappa)
        loss += abs(taus[b, i] - (u < 0)) * huber / kappa / TARGET
    losses.append(loss)
    errors.append(np.mean(targets) - np.mean(online))
  return np.array(losses), np.array(errors)


def loss_of(inputs, slow):
  if slow:
    return slow_loss(inputs, 1.0)[0]
  return quantile.quantile_q_learning(**inputs, huber_delta=1.0).loss


@pytest.mark.parametrize("kappa", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("sampled", [False, True])
def test_loss_and_error_equal_the_slow_sum(sampled, kappa):
  inputs = make_inputs(0, sampled)
  found = quantile.quantile_q_learning(
    **checks.to_tensors(inputs), huber_delta=kappa
  )
  loss, error = slow_loss(inputs, kappa)
  np.testing.assert_allclose(found.loss, loss, atol=1e-6)
  np.testing.assert_allclose(found.td_error, error, atol=1e-6)


def test_only_the_online_quantiles_have_a_gradient():
  inputs = make_inputs(0)
  taus = inputs.pop("taus")  # constants, made by the network

  def loss(inputs, slow):
    return loss_of({**inputs, "taus": taus}, slow)

  checks.check_gradients(loss, inputs, "quantiles_tm1")


def test_the_loss_is_minimal_at_the_quantiles():
  """For terminal rewards of 0 (3 of 4) or 10, checks the three minima."""
  rewards = np.array([0.0] * 3 + [10.0])  # 10 has the probability 1/4

  def mean_loss(value, tau):
    inputs = {
      "quantiles_tm1": np.full((4, 1, 1), value),
      "taus": np.array([tau]),
      "a_tm1": np.zeros(4, int),
      "r_t": rewards,
      "discount_t": np.zeros(4),
      "quantiles_t": np.zeros((4, 1, 1)),
      "q_t_selector": np.zeros((4, 1)),
    }
    output = quantile.quantile_q_learning(
      **checks.to_tensors(inputs), huber_delta=1e-3
    )
    return float(output.loss.numpy().mean())

  values = np.linspace(-5.0, 15.0, 201)
  for tau, expected in ((0.25, 0.0), (0.5, 0.0), (0.9, 10.0)):
    least = values[np.argmin([mean_loss(value, tau) for value in values])]
    assert least == pytest.approx(expected, abs=0.11)
