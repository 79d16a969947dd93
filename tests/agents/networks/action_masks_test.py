"""Tests of action masks: outputs of illegal actions, by definition."""

import numpy as np
import pytest
import tensorflow as tf
from acme import specs

from slipway.agents.networks import action_masks, numpy_ops, tf_ops
from slipway.environments import arrays
from tests.environments import given

SIZES = (2, 1, 3)
BACKENDS = {
  "numpy": (numpy_ops, lambda x: x),
  "tensorflow": (tf_ops, tf.constant),
}


def split_mask(mask):
  """Splits an action's mask into those of its components."""
  return np.split(mask, np.cumsum(SIZES)[:-1])


def expect_joint_actions(mask):
  parts = split_mask(mask)
  return [
    all(part[value] for part, value in zip(parts, values, strict=True))
    for values in np.ndindex(*SIZES)
  ]


def expect_components(mask):
  return [
    value < len(part) and part[value]
    for part in split_mask(mask)
    for value in range(max(SIZES))
  ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
  ("actions", "expected"),
  [
    (specs.DiscreteArray(6), list),
    (arrays.JointActionArray(SIZES), expect_joint_actions),
    (arrays.MultiDiscreteArray(SIZES), expect_components),
  ],
)
@pytest.mark.parametrize(
  ("shape", "dtype"), [((4,), np.float32), ((2, 3), np.uint8), ((), np.float32)]
)
def test_outputs_of_illegal_actions(backend, actions, expected, shape, dtype):
  ops, array = BACKENDS[backend]
  random = np.random.default_rng(0)
  masks = random.random((20, sum(SIZES))) < 0.5
  observations = random.integers(0, 9, (20, *shape)).astype(dtype)
  masked = arrays.MaskedArray(specs.Array(shape, dtype), sum(SIZES))
  spec = given.spec_of(actions=actions, observations=masked)
  mask = action_masks.MaskSplitter(spec)
  joined = spec.observations.join(observations, masks)
  alone, penalty = mask.split(ops, array(joined))
  np.testing.assert_array_equal(alone, observations)
  legal = np.array([expected(one) for one in masks])
  np.testing.assert_array_equal(
    penalty, np.where(legal, 0.0, action_masks.ILLEGAL).astype(np.float32)
  )
  np.testing.assert_array_equal(mask.find_legal(joined), legal)


def test_without_masks_only_padding_is_illegal():
  x = np.ones((3, 2), np.float32)
  for actions, expected in (
    (specs.DiscreteArray(6), None),
    (arrays.MultiDiscreteArray((2, 2)), None),
    (
      arrays.MultiDiscreteArray((2, 1)),
      np.float32([0, 0, 0, action_masks.ILLEGAL]),
    ),
  ):
    mask = action_masks.MaskSplitter(given.spec_of((2,), actions=actions))
    observation, penalty = mask.split(numpy_ops, x)
    assert observation is x
    np.testing.assert_array_equal(penalty, expected)
