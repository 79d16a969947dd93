"""Modules: TensorFlow modules of the user's as parts of networks."""

import random
import typing
from collections.abc import Callable

import numpy as np
import tensorflow as tf


class Modules:
  """The user's modules of one network, by name, which are made when called.

  Keras layers and models and Sonnet's modules are tf.Modules, too. This class
  is none, so that a network's checkpoint has their variables and nothing else.
  """

  def __init__(
    self,
    make_seed: Callable[[str], int],
    add: Callable[[str, tuple[int, ...], tf.Variable], typing.Any],
  ):
    """Makes an object without modules.

    Args:
      make_seed: returns the seed, below 2^32, of a module's initial values.
      add: function that is called with the name, the shape and the variable,
        for each variable of a new module. Names are 'MODULE/0', 'MODULE/1' and
        so on, since Keras numbers names of layers within a process.
    """
    self._make_seed, self._add = make_seed, add
    self._modules: dict[str, typing.Any] = {}

  def __call__(
    self, name: str, make: Callable[[], typing.Any], x: typing.Any
  ) -> typing.Any:
    """Returns the outputs of the module `name`, made by `make`, for x [B, ...].

    Raises:
      ValueError: what was made is no module for a network.
    """
    x = tf.convert_to_tensor(x)
    if name not in self._modules:
      self._modules[name] = module = _make(make, x, self._make_seed(name))
      for i, variable in enumerate(module.variables):
        self._add(f"{name}/{i}", tuple(variable.shape), variable)
    return self._modules[name](x)


def _make(
  make: Callable[[], typing.Any], x: tf.Tensor, seed: int
) -> typing.Any:
  """Returns a new module with its variables, whose values depend on a seed."""
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
