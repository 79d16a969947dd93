"""Helpers for tests of losses: gradients, and value rescaling."""

import math

import numpy as np
import tensorflow as tf

STEP = 1e-6


def to_tensors(inputs):
  """Returns float64 tensors by name; `a_tm1` is int32."""
  return {
    name: tf.constant(x, tf.int32 if name == "a_tm1" else tf.float64)
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


def slow_rescale(x):
  """Returns h(x) of Pohlen et al. 2018, proposition A.2."""
  sign = math.copysign(1.0, x)
  return sign * (math.sqrt(abs(x) + 1) - 1) + 1e-3 * x
