"""Tests of Q-learning losses against the papers' sums, item by item."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import q_learning
from tests.agents.losses import checks

BATCH, ACTIONS = 16, 5


def make_inputs(seed, scale=2.0):
  random = np.random.default_rng(seed)
  n = random.integers(1, 6, BATCH)
  terminated = random.random(BATCH) < 0.3
  return {
    "q_tm1": scale * random.normal(size=(BATCH, ACTIONS)),
    "a_tm1": random.integers(0, ACTIONS, BATCH),
    "r_t": random.normal(size=BATCH),
    "discount_t": np.where(terminated, 0.0, 0.99**n),
    "q_t": scale * random.normal(size=(BATCH, ACTIONS)),
    "q_t_selector": scale * random.normal(size=(BATCH, ACTIONS)),
  }


def slow_loss(inputs, delta):
  """Returns losses and TD errors by the papers' sums.

  Mnih et al. 2015, algorithm 1; van Hasselt et al. 2016, equation 4.
  """
  losses, errors = [], []
  for i in range(BATCH):
    best = 0
    for a in range(ACTIONS):
      if inputs["q_t_selector"][i, a] > inputs["q_t_selector"][i, best]:
        best = a
    target = inputs["r_t"][i] + inputs["discount_t"][i] * inputs["q_t"][i, best]
    error = target - inputs["q_tm1"][i, inputs["a_tm1"][i]]
    if abs(error) <= delta:
      losses.append(0.5 * error**2)
    else:
      losses.append(delta * (abs(error) - 0.5 * delta))
    errors.append(error)
  return np.array(losses), np.array(errors)


@pytest.mark.parametrize("delta", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("double", [False, True])
def test_loss_and_error_equal_the_slow_sum(double, delta):
  inputs = make_inputs(0)
  if not double:
    inputs["q_t_selector"] = inputs["q_t"]
  output = q_learning.q_learning(**checks.to_tensors(inputs), huber_delta=delta)
  loss, td_error = slow_loss(inputs, delta)
  assert output.loss.shape == output.td_error.shape == (BATCH,)
  np.testing.assert_allclose(output.td_error, td_error, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(output.loss, loss, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("delta", [0.5, 4.0])
def test_only_the_chosen_actions_value_has_a_gradient(delta):
  def loss_of(inputs, slow):
    if slow:
      return slow_loss(inputs, delta)[0]
    return q_learning.q_learning(**inputs, huber_delta=delta).loss

  checks.check_gradients(loss_of, make_inputs(0), "q_tm1")
  found, _ = checks.gradients(loss_of, make_inputs(0), "q_tm1")
  assert np.abs(found).max() <= delta + 1e-6
  assert ((found != 0).sum(axis=1) == 1).all()


def test_no_gradient_flows_into_targets_of_the_same_tensor():
  """In DQN without a target network, targets have no gradient either."""
  q = tf.constant([[1.0, 3.0]])
  with tf.GradientTape() as tape:
    tape.watch(q)
    loss = q_learning.q_learning(
      q, tf.constant([0]), tf.constant([0.0]), tf.constant([0.5]), q, q, 1e3
    ).loss
  np.testing.assert_allclose(tape.gradient(loss, q), [[-0.5, 0.0]])


def test_wrong_ranks_are_rejected():
  loss = functools.partial(q_learning.q_learning, huber_delta=1.0)
  checks.check_ranks(loss, make_inputs(0))


def slow_penalty(inputs):
  """Kumar et al. 2020, equation 4, for each element of the batch."""
  q = np.asarray(inputs["q_tm1"], np.float64)
  return [
    np.log(sum(np.exp(q[b, a]) for a in range(q.shape[1]))) - q[b, chosen]
    for b, chosen in enumerate(np.asarray(inputs["a_tm1"]))
  ]


def test_the_conservative_penalty_is_the_papers():
  inputs = {k: v for k, v in make_inputs(0).items() if k in ("q_tm1", "a_tm1")}
  found = q_learning.conservative(
    tf.constant(inputs["q_tm1"], tf.float32), tf.constant(inputs["a_tm1"])
  )
  np.testing.assert_allclose(found, slow_penalty(inputs), rtol=1e-5)


def slow_margin(inputs, margin):
  """Hester et al. 2018, section 4, J_E, for each element of the batch."""
  q = np.asarray(inputs["q_tm1"], np.float64)
  losses = []
  for b, expert in enumerate(np.asarray(inputs["a_tm1"])):
    raised = [q[b, a] + margin * (a != expert) for a in range(q.shape[1])]
    losses.append(max(raised) - q[b, expert])
  return np.array(losses)


@pytest.mark.parametrize("margin", [0.1, 0.8])
def test_the_large_margin_is_the_papers(margin):
  inputs = {k: v for k, v in make_inputs(0).items() if k in ("q_tm1", "a_tm1")}

  def loss_of(inputs, slow):
    if slow:
      return slow_margin(inputs, margin)
    return q_learning.large_margin(**inputs, margin=margin)

  found = loss_of(checks.to_tensors(inputs), slow=False)
  expected = slow_margin(inputs, margin)
  assert (expected == 0).any() and (expected > 0).any()
  np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
  checks.check_gradients(loss_of, inputs, "q_tm1")
