"""Modules: TensorFlow modules of the user's as parts of networks.

Keras layers and models and Sonnet's modules are tf.Modules, too.
"""

import random
import typing
from collections.abc import Callable

import numpy as np
import tensorflow as tf


def make_module(
  make: Callable[[], typing.Any], x: tf.Tensor, seed: int
) -> Callable[..., typing.Any]:
  """Makes a user's module, and its variables by a first call.

  Args:
    make: function without arguments that makes the module.
    x: inputs [B, ...] of the call.
    seed: seed of the initial values, from 0 to 2^32 - 1.

  Raises:
    TypeError: it is no module.
    ValueError: the module could not be trained or saved.
  """
  before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002
  try:
    # That of Python, NumPy and TensorFlow, and Keras's own.
    tf.keras.utils.set_random_seed(seed)
    module = make()
    if not (isinstance(module, tf.Module) and callable(module)):
      raise TypeError(f"{type(module).__name__} is no tf.Module to call")
    module(x)
    made = module.variables
    # As learners call it. No later call may make variables there.
    tf.function(lambda x: module(x), autograph=False).get_concrete_function(
      tf.TensorSpec((None, *x.shape[1:]), x.dtype)
    )
  finally:
    random.setstate(before)
    np.random.set_state(numpy_before)  # noqa: NPY002
  if len(module.variables) != len(made):
    raise ValueError("a later call than the first one makes variables")
  others = {x.dtype.name for x in made} - {"float32"}
  if others:
    raise ValueError(f"variables are {', '.join(others)}, not float32")
  return module


def name_variables(name: str, module: typing.Any) -> dict[str, typing.Any]:
  """Returns a module's variables by name: 'NAME/0', 'NAME/1' and so on.

  Keras's own names of layers differ between processes.
  """
  return {f"{name}/{i}": x for i, x in enumerate(module.variables)}
