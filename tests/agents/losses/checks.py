"""What the tests of losses have in common."""

import math

import numpy as np
import tensorflow as tf

STEP = 1e-6


def to_tensors(inputs):
  """Tensors of float64 and int32, by name."""
  return {
    name: tf.constant(x, tf.int32 if name == "a_tm1" else tf.float64)
    for name, x in inputs.items()
  }


def gradients(loss_of, inputs, name):
  """The gradient of a loss's sum with respect to an input, and the same by
  central differences of the slow loss: `loss_of(inputs, slow)` [B]."""
  tensors = to_tensors(inputs)
  with tf.GradientTape() as tape:
    tape.watch(tensors[name])
    loss = tf.reduce_sum(loss_of(tensors, slow=False))
  found = tape.gradient(loss, tensors[name]).numpy()
  expected = np.zeros_like(found)
  for index in np.ndindex(*found.shape):
    ends = []
    for sign in (1, -1):
      moved = inputs[name].copy()
      moved[index] += sign * STEP
      ends.append(loss_of({**inputs, name: moved}, slow=True).sum())
    expected[index] = (ends[0] - ends[1]) / (2 * STEP)
  return found, expected


def flows(loss_of, inputs):
  """Names of the float inputs that the loss has a gradient for."""
  tensors = to_tensors(inputs)
  watched = {k: v for k, v in tensors.items() if v.dtype.is_floating}
  with tf.GradientTape() as tape:
    tape.watch(watched)
    loss = loss_of(tensors, slow=False)
  found = tape.gradient(loss, watched)
  return {name for name, gradient in found.items() if gradient is not None}


def slow_rescale(x):
  """h(x) of Pohlen et al. 2018, proposition A.2."""
  sign = math.copysign(1.0, x)
  return sign * (math.sqrt(abs(x) + 1) - 1) + 1e-3 * x
