"""Networks in TensorFlow: with variables that learn, and as graphs that act."""

import typing
import zlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from slipway.agents.networks import initializers, tf_ops
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import network as network_lib


class Network(tf.Module):
  """A declaration with variables; `tf.train.Checkpoint` saves them.

  Attributes:
    layers: bound to the variables, for other methods of the declaration.
  """

  def __init__(
    self, declaration: network_lib.Declaration, seed: int, name: str = ""
  ):
    """Creates the variables.

    A variable's initial value depends on the seed and its whole name only.

    Args:
      declaration: what to compute.
      seed: of the initial values, at least 0.
      name: prefix of the variables' names, to tell a learner's networks from
        one another; "": none.
    """
    super().__init__(name=name or "network")
    self._declaration, self._seed = declaration, seed
    self._prefix = f"{name}/" if name else ""
    self._variables: dict[str, tf.Variable] = {}
    self.layers = layers_lib.Layers(tf_ops, self._variable)
    self(*(tf.zeros((1, *x.shape), x.dtype) for x in declaration.inputs))

  def __call__(self, *inputs: typing.Any, **options: typing.Any) -> typing.Any:
    """The outputs of the declaration, from inputs [B, ...]."""
    return self._declaration(self.layers, *inputs, **options)

  def get_variables(self) -> dict[str, np.ndarray]:
    """A copy of the variables by name, such as 'torso/linear_0/w'."""
    return {
      self._prefix + name: variable.numpy()
      for name, variable in self._variables.items()
    }

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Assigns the values that `get_variables` of an equal network returned."""
    for name, variable in self._variables.items():
      variable.assign(variables[self._prefix + name])

  def _variable(
    self,
    name: str,
    shape: tuple[int, ...],
    initializer: initializers.Initializer,
  ) -> tf.Variable:
    if name not in self._variables:
      of_name = zlib.crc32((self._prefix + name).encode())
      random = np.random.default_rng([self._seed, of_name])
      self._variables[name] = tf.Variable(
        tf.constant(initializer(random, shape)), name=name
      )
    return self._variables[name]


class ActingNetwork:
  """Any network, as one graph; see `network.ActingNetwork`."""

  def __init__(self, declaration: network_lib.Declaration, name: str):
    """Traces the graphs.

    They are called as concrete functions, without a look at the arguments:
    0.3 ms less per call, of 1.9 ms at batch 8.
    """
    self._network = Network(declaration, 0, name)
    inputs = [tf.TensorSpec((None, *x.shape), x.dtype)
              for x in declaration.inputs]  # fmt: skip
    self._quiet: Callable = tf.function(
      lambda *inputs: self._network(*inputs), autograph=False
    ).get_concrete_function(*inputs)
    self._noisy: Callable | None = None
    if declaration.needs_random:
      self._noisy = tf.function(
        lambda seed, *inputs: self._network(*inputs, random=seed),
        autograph=False,
      ).get_concrete_function(tf.TensorSpec((2,), tf.int32), *inputs)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the variables."""
    self._network.load(variables)

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    """The outputs of the declaration, in NumPy."""
    tensors = [tf.constant(x) for x in inputs]
    if self._noisy is None or random is None:
      outputs = self._quiet(*tensors)
    else:
      seed = random.integers(2**31, size=2, dtype=np.int32)
      outputs = self._noisy(tf.constant(seed), *tensors)
    return tf.nest.map_structure(
      lambda x: None if x is None else x.numpy(), outputs
    )
