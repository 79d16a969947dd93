"""Tests of target networks: copies, and moving averages."""

import numpy as np
import pytest
import tensorflow as tf

from slipway.agents import targets


def make_variables(*values):
  return [tf.Variable(np.float32(value)) for value in values]


def values(variables):
  return [variable.numpy().tolist() for variable in variables]


def test_a_copy_is_equal_and_independent():
  target, online = make_variables(0.0, [1.0, 2.0]), make_variables(5.0, [6, 7])
  targets.copy(target, online)
  assert values(target) == [5.0, [6.0, 7.0]]
  online[0].assign(9.0)
  assert values(target) == [5.0, [6.0, 7.0]]


@pytest.mark.parametrize("tau", [0.0, 0.005, 0.5, 1.0])
def test_soft_targets_follow_by_tau(tau):
  random = np.random.default_rng(0)
  before, online = random.normal(size=(2, 4, 3)).astype(np.float32)
  target = make_variables(before)
  expected = before.astype(float)
  follow = tf.function(
    lambda *fresh: targets.soft_update(target, fresh, tau), autograph=False
  )
  for _ in range(5):
    follow(online)
    expected = (1 - tau) * expected + tau * online
    np.testing.assert_allclose(target[0], expected, rtol=1e-5, atol=1e-6)
