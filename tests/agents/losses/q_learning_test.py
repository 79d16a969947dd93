"""Tests of Q-learning losses against the papers' sums, item by item."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import q_learning

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


def to_tensors(inputs):
  return {
    name: tf.constant(x, tf.int32 if name == "a_tm1" else tf.float32)
    for name, x in inputs.items()
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
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("double", [False, True])
def test_loss_and_error_equal_the_slow_sum(double, seed, delta):
  inputs = make_inputs(seed)
  if not double:
    inputs["q_t_selector"] = inputs["q_t"]
  output = q_learning.q_learning(**to_tensors(inputs), huber_delta=delta)
  loss, td_error = slow_loss(inputs, delta)
  assert output.loss.shape == output.td_error.shape == (BATCH,)
  np.testing.assert_allclose(output.td_error, td_error, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(output.loss, loss, rtol=1e-5, atol=1e-5)


def test_one_item_by_hand():
  output = q_learning.q_learning(
    q_tm1=tf.constant([[1.0, 2.0]]),
    a_tm1=tf.constant([1]),
    r_t=tf.constant([0.5]),
    discount_t=tf.constant([0.81]),  # two steps with a discount of 0.9
    q_t=tf.constant([[10.0, 4.0]]),
    q_t_selector=tf.constant([[0.0, 1.0]]),
    huber_delta=1.0,
  )
  np.testing.assert_allclose(output.td_error, [0.5 + 0.81 * 4 - 2], rtol=1e-6)
  np.testing.assert_allclose(output.loss, [1.74 - 0.5], rtol=1e-6)


@pytest.mark.parametrize("delta", [0.5, 4.0])
def test_gradient_equals_finite_differences(delta):
  inputs = make_inputs(0)
  tensors = to_tensors(inputs)
  with tf.GradientTape() as tape:
    tape.watch(tensors["q_tm1"])
    output = q_learning.q_learning(**tensors, huber_delta=delta)
    loss = tf.reduce_sum(output.loss)
  gradient = tape.gradient(loss, tensors["q_tm1"]).numpy()
  step, expected = 1e-6, np.zeros((BATCH, ACTIONS))
  for index in np.ndindex(BATCH, ACTIONS):
    ends = []
    for sign in (1, -1):
      shifted = inputs["q_tm1"].copy()
      shifted[index] += sign * step
      ends.append(slow_loss({**inputs, "q_tm1": shifted}, delta)[0].sum())
    expected[index] = (ends[0] - ends[1]) / (2 * step)
  np.testing.assert_allclose(gradient, expected, atol=1e-5)
  assert np.abs(gradient).max() <= delta + 1e-6
  # Only the chosen action has a gradient.
  assert ((gradient != 0).sum(axis=1) == 1).all()


def test_no_gradient_flows_into_targets():
  tensors = to_tensors(make_inputs(1))
  targets = [tensors[x] for x in ("r_t", "discount_t", "q_t", "q_t_selector")]
  with tf.GradientTape() as tape:
    tape.watch(targets)
    loss = q_learning.q_learning(**tensors, huber_delta=1.0).loss
  assert tape.gradient(loss, targets) == [None] * 4


def test_no_gradient_flows_into_targets_of_the_same_tensor():
  """In DQN without a target network, targets have no gradient either."""
  q = tf.constant([[1.0, 3.0]])
  with tf.GradientTape() as tape:
    tape.watch(q)
    loss = q_learning.q_learning(
      q, tf.constant([0]), tf.constant([0.0]), tf.constant([0.5]), q, q, 1e3
    ).loss
  np.testing.assert_allclose(tape.gradient(loss, q), [[-0.5, 0.0]])


@pytest.mark.parametrize(
  ("name", "bad"),
  [
    ("q_tm1", tf.zeros([BATCH])),
    ("a_tm1", tf.zeros([BATCH, 1], tf.int32)),
    ("r_t", tf.zeros([BATCH, 1])),
    ("discount_t", tf.zeros([])),
    ("q_t", tf.zeros([BATCH, ACTIONS, 1])),
    ("q_t_selector", tf.zeros([ACTIONS])),
  ],
)
def test_wrong_rank_names_the_argument(name, bad):
  tensors = to_tensors(make_inputs(0)) | {name: bad}
  with pytest.raises(ValueError, match=f"{name} must have rank"):
    q_learning.q_learning(**tensors, huber_delta=1.0)
