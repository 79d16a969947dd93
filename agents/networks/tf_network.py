"""Networks in TensorFlow: one with trainable variables, and one for acting."""

import functools
import types
import typing
import zlib
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from slipway.agents.networks import initializers, modules, tf_ops
from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import network as network_lib


class Network(tf.Module):
  """A declared network with trainable variables, which checkpoints save.

  Attributes:
    layers: layers with the variables, the first argument of the declaration's
      methods, such as `unroll`.
  """

  def __init__(
    self, declaration: network_lib.Declaration, seed: int, name: str = ""
  ):
    """Creates the network's variables.

    Initial values depend only on the seed and the variable's full name.

    Args:
      seed: seed of the initial values, at least 0.
      name: name of the network, the prefix of its variables' names, if a
        learner has several networks.

    Raises:
      ValueError: layers share a name that should not; see
        `layers.VariableShapes`.
    """
    super().__init__(name=name or "network")
    self._declaration, self._seed = declaration, seed
    self._prefix = f"{name}/" if name else ""
    self._variables: dict[str, tf.Variable] = {}
    self._shapes = layers_lib.VariableShapes()
    # The user's modules by name, in an object that is not saved: checkpoints
    # need their variables alone.
    self._modules = types.SimpleNamespace()
    self.layers = self.make_layers(tf_ops)
    self(*(tf.zeros((1, *x.shape), x.dtype) for x in declaration.inputs))

  def __call__(self, *inputs: typing.Any, **options: typing.Any) -> typing.Any:
    """Returns the outputs of the declaration for inputs [B, ...].

    Args:
      *inputs: inputs of the declaration, [B, ...] each.
    """
    return self._declaration(self.layers, *inputs, **options)

  def compute_dead_units(
    self, *inputs: typing.Any, **options: typing.Any
  ) -> tf.Tensor:
    """Returns the part [] of the ReLUs that give 0 for all B inputs.

    It is 0 for a network without ReLUs. Those in bfloat16 are not counted.
    """
    return self.compute_dead_units_of(
      lambda layers: self._declaration(layers, *inputs, **options)
    )

  def compute_dead_units_of(
    self, forward: Callable[[layers_lib.Layers], typing.Any]
  ) -> tf.Tensor:
    """Returns `compute_dead_units` of another method of the declaration.

    Args:
      forward: calls the method, such as `unroll`, with the given layers; their
        ReLUs have outputs [N, ...].
    """
    recorder = _ReluRecorder()
    forward(self.make_layers(recorder))
    dead = [
      tf.reduce_all(x <= 0, axis=tuple(range(len(x.shape) - 1)))
      for x in recorder.outputs
    ]
    if not dead:
      return tf.constant(0.0)
    return tf.reduce_mean(tf.cast(tf.concat(dead, axis=0), tf.float32))

  def make_layers(self, ops: typing.Any) -> layers_lib.Layers:
    """Returns layers with the network's variables, and other operations.

    Args:
      ops: the functions of `tf_ops`, some of which may be others.
    """
    return layers_lib.Layers(
      ops,
      functools.partial(self._variable, False),
      functools.partial(self._variable, True),
      self._call_module,
    )

  def get_variables(self) -> dict[str, np.ndarray]:
    """Returns a copy of the variables, arrays by name: 'torso/linear_0/w'."""
    return {
      self._prefix + name: variable.numpy()
      for name, variable in self._variables.items()
    }

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    for name, variable in self._variables.items():
      variable.assign(variables[self._prefix + name])

  def _call_module(
    self, name: str, make: Callable[[], typing.Any], x: tf.Tensor
  ) -> tf.Tensor:
    """Returns the outputs of a user's module, made at its first use."""
    known = vars(self._modules)
    if name not in known:
      seed = zlib.crc32((self._prefix + name).encode(), self._seed)
      known[name] = modules.make_module(make, x, seed)
      for key, variable in modules.name_variables(name, known[name]).items():
        self._shapes.add(key, tuple(variable.shape), is_users=True)
        self._variables[key] = variable
    return known[name](x)

  def _variable(
    self,
    is_users: bool,
    name: str,
    shape: tuple[int, ...],
    initializer: initializers.Initializer,
  ) -> tf.Variable:
    """Returns the variable `name`, and creates it at its first use."""
    self._shapes.add(name, shape, is_users)
    if name not in self._variables:
      name_seed = zlib.crc32((self._prefix + name).encode())
      random = np.random.default_rng([self._seed, name_seed])
      self._variables[name] = tf.Variable(
        tf.constant(initializer(random, shape)), name=name
      )
    return self._variables[name]


class _ReluRecorder:
  """The operations of `tf_ops`, which keep the outputs of their ReLUs."""

  def __init__(self):
    self.outputs: list[tf.Tensor] = []

  def relu(self, x: tf.Tensor) -> typing.Any:
    """Returns max(x, 0), and keeps it."""
    output: typing.Any = tf_ops.relu(x)
    self.outputs.append(output)
    return output

  def __getattr__(self, name: str) -> typing.Any:
    return getattr(tf_ops, name)


class ActingNetwork:
  """Acting network that computes in TensorFlow; see `network.ActingNetwork`."""

  def __init__(self, declaration: network_lib.Declaration, name: str):
    """Traces a graph without noise, and one with noise if `needs_random`.

    Concrete functions skip the inspection of arguments by `tf.function`, which
    saves 0.3 of 1.9 ms per call with a batch of 8.

    Args:
      name: name of the network, the prefix of its variables' names, or ''.
    """
    self._network = Network(declaration, 0, name)
    inputs = [tf.TensorSpec((None, *x.shape), x.dtype)
              for x in declaration.inputs]  # fmt: skip
    self._call_without_noise: Callable = tf.function(
      lambda *inputs: self._network(*inputs), autograph=False
    ).get_concrete_function(*inputs)
    self._call_with_noise: Callable | None = None
    if declaration.needs_random:
      self._call_with_noise = tf.function(
        lambda seed, *inputs: self._network(*inputs, random=seed),
        autograph=False,
      ).get_concrete_function(tf.TensorSpec((2,), tf.int32), *inputs)

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._network.load(variables)

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    """Returns the outputs for inputs [B, ...], as NumPy arrays."""
    tensors = [tf.constant(x) for x in inputs]
    if self._call_with_noise is None or random is None:
      outputs = self._call_without_noise(*tensors)
    else:
      seed = random.integers(2**31, size=2, dtype=np.int32)
      outputs = self._call_with_noise(tf.constant(seed), *tensors)
    return tf.nest.map_structure(
      lambda x: None if x is None else x.numpy(), outputs
    )
