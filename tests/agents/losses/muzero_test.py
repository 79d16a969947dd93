"""Tests of MuZero's targets and losses against slow sums in float64."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents.losses import muzero, rescaling
from tests.agents.losses import checks

BATCH, UNROLL, ACTIONS = 64, 4, 3
ATOMS = np.arange(-6.0, 7.0)
VALUE_WEIGHT, END_WEIGHT = 0.3, 3.0


def make_sequences(seed, n):
  """Returns sequences of K + n steps with ends, and resets after them."""
  random = np.random.default_rng(seed)
  steps = UNROLL + n
  ended = np.zeros((BATCH, steps), bool)
  first = np.zeros((BATCH, steps + 1), bool)
  is_reset = random.random(BATCH) < 0.2  # sequences that begin with a reset
  for t in range(steps):
    first[:, t + 1] = is_reset
    ended[:, t] = ~is_reset & (random.random(BATCH) < 0.25)
    is_reset = ended[:, t]
  terminated = ended & (random.random((BATCH, steps)) < 0.6)
  return {
    "reward": 3 * random.normal(size=(BATCH, steps)) * ~first[:, 1:],
    "discount": 0.9 * ~terminated,
    "ended": ended,
    "first": first,
    "values": 5 * random.normal(size=(BATCH, steps + 1)),
  }


def slow_targets(inputs, b, n):
  """Yields reward, return and whether it is a step of states of a sequence."""
  reward, discount, ended = (
    inputs[name][b] for name in ("reward", "discount", "ended")
  )
  is_step = not inputs["first"][b, 1]
  for k in range(UNROLL + 1):
    if is_step:
      total, factor, t = 0.0, 1.0, k
      while True:
        total += factor * reward[t]
        factor *= discount[t]
        t += 1
        if ended[t - 1] or t - k == n:
          break
      yield reward[k], total + factor * inputs["values"][b, t], True
      is_step = not ended[k]
    else:
      yield 0.0, 0.0, False


@pytest.mark.parametrize("n", [1, 2, 5])
def test_targets_equal_the_slow_loop(n):
  inputs = make_sequences(n, n)
  found = muzero.compute_targets(**checks.to_tensors(inputs), unroll=UNROLL)
  kinds = set()
  for b in range(BATCH):
    for k, (reward, value, is_step) in enumerate(slow_targets(inputs, b, n)):
      np.testing.assert_allclose(found.value[b, k], value, atol=1e-9)
      assert found.is_step[b, k] == is_step
      if k < UNROLL:
        is_end = is_step and not inputs["discount"][b, k]
        assert found.is_end[b, k] == is_end
        kinds.add((is_step, bool(inputs["ended"][b, k]), is_end))
        np.testing.assert_allclose(found.reward[b, k], reward, atol=1e-9)
  # Steps of each kind of the first episode, and steps behind it.
  assert kinds == {
    (True, False, False),
    (True, True, False),
    (True, True, True),
    (False, False, False),
    (False, True, False),
  }


def slow_two_hot(x):
  """Returns the probabilities of the two atoms next to h(x)."""
  scaled = min(max(checks.slow_rescale(x), ATOMS[0]), ATOMS[-1])
  found = np.zeros(len(ATOMS))
  above = min(int(np.searchsorted(ATOMS, scaled)), len(ATOMS) - 1)
  below = max(above - 1, 0)
  share = scaled - ATOMS[below]
  found[below] += 1 - share
  found[above] += share
  return found


def test_numbers_are_the_means_of_their_distributions():
  x = np.array([0.0, 1.0, -1.0, 20.0, -7.3, 1e9, -1e9])
  found = muzero.two_hot(tf.constant(x), ATOMS)
  expected = [slow_two_hot(each) for each in x]
  np.testing.assert_allclose(found, expected, atol=1e-12)
  means = rescaling.unscale(found.numpy() @ ATOMS)
  np.testing.assert_allclose(means[:-2], x[:-2], atol=1e-9)
  assert means[-2] == -means[-1] == rescaling.unscale(ATOMS[-1])


def make_inputs(n=2):
  random = np.random.default_rng(0)
  states = (BATCH, UNROLL + 1)
  policy = random.random((*states, ACTIONS))
  logits = {
    "logits": random.normal(size=(*states, ACTIONS)),
    "value_logits": random.normal(size=(*states, len(ATOMS))),
    "reward_logits": random.normal(size=(BATCH, UNROLL, len(ATOMS))),
    "end_logits": random.normal(size=(BATCH, UNROLL)),
  }
  policy /= policy.sum(axis=2, keepdims=True)
  return logits, policy, make_sequences(7, n)


def log_softmax(x):
  x = x - x.max()
  return x - np.log(np.exp(x).sum())


def slow_loss(logits, policy, inputs, n=2):
  """Returns the loss [B] by a loop over the states."""
  losses = np.zeros(BATCH)
  for b in range(BATCH):
    for k, (reward, value, is_step) in enumerate(slow_targets(inputs, b, n)):
      if not is_step:
        break
      found = -(policy[b, k] @ log_softmax(logits["logits"][b, k]))
      of_value = log_softmax(logits["value_logits"][b, k])
      found -= VALUE_WEIGHT * slow_two_hot(value) @ of_value
      losses[b] += found / (UNROLL if k else 1)
      if k < UNROLL:
        of_reward = log_softmax(logits["reward_logits"][b, k])
        found = -(slow_two_hot(reward) @ of_reward)
        odds = np.exp(logits["end_logits"][b, k])
        end = odds if not inputs["discount"][b, k] else 1.0
        found -= END_WEIGHT * np.log(end / (1.0 + odds))
        losses[b] += found / UNROLL
  return losses


def test_the_loss_equals_the_slow_sum():
  logits, policy, inputs = make_inputs()
  targets = muzero.compute_targets(**checks.to_tensors(inputs), unroll=UNROLL)

  def loss_of(logits, slow):
    if slow:
      return slow_loss(logits, policy, inputs)
    return muzero.muzero_loss(
      tf.nn.log_softmax(logits["logits"]),
      logits["value_logits"],
      logits["reward_logits"],
      logits["end_logits"],
      policy=tf.constant(policy),
      targets=targets,
      atoms=ATOMS,
      value_weight=VALUE_WEIGHT,
      end_weight=END_WEIGHT,
    )["loss"]

  tensors = checks.to_tensors(logits)
  found = loss_of(tensors, slow=False)
  np.testing.assert_allclose(found, slow_loss(logits, policy, inputs))
  # A few of the many logits, each of which takes two slow sums.
  for name, x in tensors.items():
    with tf.GradientTape() as tape:
      tape.watch(x)
      loss = tf.reduce_sum(loss_of({**tensors, name: x}, slow=False))
    gradient = tape.gradient(loss, x).numpy()
    for index in [(0, 0, 0), (5, 3, 2), (9, 1, 1), (20, 2, 0)]:
      index = index[: gradient.ndim]
      ends = []
      for sign in (1, -1):
        shifted = logits[name].copy()
        shifted[index] += sign * checks.STEP
        ends.append(loss_of({**logits, name: shifted}, slow=True).sum())
      expected = (ends[0] - ends[1]) / (2 * checks.STEP)
      np.testing.assert_allclose(gradient[index], expected, atol=1e-6)


def test_the_consistency_loss_is_a_mean_of_cosines():
  random = np.random.default_rng(1)
  predicted, projected = random.normal(size=(2, 3, UNROLL, 5))
  is_step = (random.random((3, UNROLL)) < 0.6).astype(float)
  found = muzero.consistency_loss(
    *map(tf.constant, (predicted, projected, is_step))
  )
  for b in range(3):
    total = 0.0
    for k in range(UNROLL):
      x, y = predicted[b, k], projected[b, k]
      cosine = x @ y / np.sqrt((x @ x) * (y @ y))
      total += is_step[b, k] * cosine
    np.testing.assert_allclose(found[b], -total / UNROLL)


def test_a_scaled_gradient_changes_no_value():
  x = tf.constant([3.0, -2.0])
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = muzero.scale_gradient(x, 0.5)
    loss = tf.reduce_sum(y**2)
  np.testing.assert_array_equal(y, x)
  np.testing.assert_allclose(tape.gradient(loss, x), 0.5 * 2 * x)
