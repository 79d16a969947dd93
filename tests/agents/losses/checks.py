"""Helpers for tests of losses: gradients, and value rescaling."""

import math

import numpy as np
import pytest
import tensorflow as tf

STEP = 1e-6


def to_tensors(inputs):
  """Returns tensors by name, of type int32, bool or float64."""
  types = {"i": tf.int32, "b": tf.bool, "f": tf.float64}
  return {
    name: x if tf.is_tensor(x) else tf.constant(x, types[x.dtype.kind])
    for name, x in inputs.items()
  }


def gradients(loss_of, inputs, name):
  """Returns the gradient of a loss's sum by an input, computed in two ways.

  Args:
    loss_of: function `loss_of(inputs, slow)` that returns the loss [B].
    inputs: arrays by name.
    name: name of the input.

  Returns:
    The gradient of the loss, and central differences of the slow loss.
  """
  tensors = to_tensors(inputs)
  with tf.GradientTape() as tape:
    tape.watch(tensors[name])
    loss = tf.reduce_sum(loss_of(tensors, slow=False))
  found = tape.gradient(loss, tensors[name]).numpy()
  expected = np.zeros_like(found)
  for index in np.ndindex(*found.shape):
    ends = []
    for sign in (1, -1):
      shifted = inputs[name].copy()
      shifted[index] += sign * STEP
      ends.append(loss_of({**inputs, name: shifted}, slow=True).sum())
    expected[index] = (ends[0] - ends[1]) / (2 * STEP)
  return found, expected


def find_inputs_with_gradient(loss_of, inputs):
  """Returns the names of the float inputs for which the loss has a gradient."""
  tensors = to_tensors(inputs)
  watched = {k: v for k, v in tensors.items() if v.dtype.is_floating}
  with tf.GradientTape() as tape:
    tape.watch(watched)
    loss = loss_of(tensors, slow=False)
  found = tape.gradient(loss, watched)
  return {name for name, gradient in found.items() if gradient is not None}


def check_gradients(loss_of, inputs, *names):
  """Asserts that a loss has gradients, as differences have, for these inputs.

  Other inputs have none.
  """
  assert find_inputs_with_gradient(loss_of, inputs) == set(names)
  for name in names:
    found, expected = gradients(loss_of, inputs, name)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert (found != 0).any()


def check_ranks(function, inputs):
  """Asserts that an input with one axis too many is rejected by its name."""
  for name, x in inputs.items():
    with pytest.raises(ValueError, match=f"{name} must have rank"):
      function(**to_tensors({**inputs, name: x[None]}))


def slow_rescale(x):
  """Returns h(x) of Pohlen et al. 2018, proposition A.2."""
  sign = math.copysign(1.0, x)
  return sign * (math.sqrt(abs(x) + 1) - 1) + 1e-3 * x
