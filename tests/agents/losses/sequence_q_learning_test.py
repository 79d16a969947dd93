"""Tests of the sequence loss against the paper's returns, step by step."""

import numpy as np
import pytest

from slipway.agents.losses import n_step, sequence_q_learning
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


def loss_of(inputs, slow, n=3):
  if slow:
    size = np.abs(slow_errors(inputs, n))
    return np.where(size <= 1, size**2 / 2, size - 0.5).sum(axis=1)
  return sequence_q_learning.sequence_q_learning(
    **inputs, n=n, huber_delta=1.0
  ).loss


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_loss_and_errors_equal_the_slow_loop(n):
  inputs = make_inputs(n)
  output = sequence_q_learning.sequence_q_learning(
    **checks.to_tensors(inputs), n=n, huber_delta=1.0
  )
  np.testing.assert_allclose(output.td_error, slow_errors(inputs, n), atol=1e-6)
  np.testing.assert_allclose(output.loss, loss_of(inputs, True, n), atol=1e-6)


def test_only_the_online_values_have_a_gradient():
  inputs = make_inputs(0)
  learned = inputs.pop("learned")  # the mask of steps

  def loss(inputs, slow):
    return loss_of({**inputs, "learned": learned}, slow)

  checks.check_gradients(loss, inputs, "q")


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
