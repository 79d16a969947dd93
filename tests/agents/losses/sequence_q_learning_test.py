"""Tests of the sequence loss against the paper's returns, step by step."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import n_step, sequence_q_learning
from slipway.replay.items import priorities
from tests.agents.losses import checks

BATCH, STEPS, ACTIONS = 4, 7, 3


def make_inputs(seed):
  random = np.random.default_rng(seed)
  ended = random.random((BATCH, STEPS)) < 0.25
  terminated = ended & (random.random((BATCH, STEPS)) < 0.6)
  # The step after an episode's last one is an autoreset, not a transition.
  learned = np.ones((BATCH, STEPS))
  learned[:, 1:] -= ended[:, :-1]
  shape = (BATCH, STEPS + 1, ACTIONS)
  return {
    "q": random.normal(size=shape),
    "action": random.integers(0, ACTIONS, (BATCH, STEPS)),
    "reward": 3 * random.normal(size=(BATCH, STEPS)),
    "discount": 0.9 * ~terminated,
    "ended": ended,
    "learned": learned,
    "q_target": random.normal(size=shape),
    "q_selector": random.normal(size=shape),
  }


def to_tensors(inputs):
  dtypes = {"action": tf.int32, "ended": tf.bool}
  return {
    name: tf.constant(x, dtypes.get(name, tf.float64))
    for name, x in inputs.items()
  }


def unscale(y):
  """Returns the inverse of h by bisection, as h increases with x."""
  low, high = -1e6, 1e6
  for _ in range(200):
    middle = (low + high) / 2
    if checks.slow_rescale(middle) < y:
      low = middle
    else:
      high = middle
  return (low + high) / 2


def slow_errors(inputs, n):
  """Returns TD errors by a loop over at most n steps of each episode."""
  errors = np.zeros((BATCH, STEPS))
  for b in range(BATCH):
    for start in range(STEPS):
      total, factor, t = 0.0, 1.0, start
      while True:
        total += factor * inputs["reward"][b, t]
        factor *= inputs["discount"][b, t]
        t += 1
        if t - start == n or inputs["ended"][b, t - 1] or t == STEPS:
          break
      best = inputs["q_selector"][b, t].argmax()
      total += factor * unscale(inputs["q_target"][b, t, best])
      chosen = inputs["q"][b, start, inputs["action"][b, start]]
      error = checks.slow_rescale(total) - chosen
      errors[b, start] = error * inputs["learned"][b, start]
  return errors


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_errors_equal_the_slow_loop(seed, n):
  inputs = make_inputs(seed)
  output = sequence_q_learning.sequence_q_learning(
    **to_tensors(inputs), n=n, huber_delta=1.0
  )
  errors = slow_errors(inputs, n)
  np.testing.assert_allclose(output.td_error, errors, atol=1e-6)
  size = np.abs(errors)
  huber = np.where(size <= 1, size**2 / 2, size - 0.5)
  np.testing.assert_allclose(output.loss, huber.sum(axis=1), atol=1e-6)


def test_gradient_equals_finite_differences():
  inputs = make_inputs(0)
  tensors = to_tensors(inputs)

  def loss(q):
    return tf.reduce_sum(
      sequence_q_learning.sequence_q_learning(
        **{**tensors, "q": q}, n=3, huber_delta=1.0
      ).loss
    )

  with tf.GradientTape() as tape:
    tape.watch(tensors["q"])
    total = loss(tensors["q"])
  found = tape.gradient(total, tensors["q"]).numpy()
  expected = np.zeros_like(found)
  for index in np.ndindex(*found.shape):
    ends = []
    for sign in (1, -1):
      shifted = inputs["q"].copy()
      shifted[index] += sign * 1e-6
      ends.append(float(loss(tf.constant(shifted))))
    expected[index] = (ends[0] - ends[1]) / 2e-6
  np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("n", [1, 3, 20])
def test_returns_of_numpy_arrays_equal_slow_sums(n):
  inputs = make_inputs(1)
  values = np.random.default_rng(0).normal(size=(BATCH, STEPS))
  steps = (inputs["reward"], inputs["discount"], inputs["ended"])
  found = n_step.compute_returns(*steps, values, n, np.concatenate, np.where)
  for b in range(BATCH):
    for start in range(STEPS):
      total, factor, t = 0.0, 1.0, start
      for t in range(start, min(start + n, STEPS)):
        total += factor * inputs["reward"][b, t]
        factor *= inputs["discount"][b, t]
        if inputs["ended"][b, t]:
          break
      expected = total + factor * values[b, t]
      np.testing.assert_allclose(found[b, start], expected, atol=1e-9)


@pytest.mark.parametrize("eta", [0.0, 0.9, 1.0])
def test_priorities_mix_the_largest_and_the_mean_error(eta):
  errors = np.array([[1.0, -3.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
  learned = np.array([[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
  mixed = eta * 3 + (1 - eta) * 4 / 3
  expected = [mixed + priorities.OFFSET, priorities.OFFSET]
  for array in (np.asarray, tf.constant):
    found = priorities.from_sequences(array(errors), array(learned), eta)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
