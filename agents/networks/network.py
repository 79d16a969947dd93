"""Networks: declared once, learned in TensorFlow, acted on in NumPy.

A declaration computes with `layers.Layers`. `tf_network.Network` gives it
variables that learn; `make_acting` runs it on arrays that a learner published:

    declaration = q_network.QNetwork(config.network, spec)
    online = tf_network.Network(declaration, seed=1)     # the trainer
    acting = network.make_acting(declaration)            # a worker
    acting.load(online.get_variables())
    values = acting(observation, random=generator).values  # [B, A]
"""

import types
import typing
from collections.abc import Mapping

import numpy as np
from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import numpy_ops


class Declaration(typing.Protocol):
  """Describes what a network computes, for NumPy and for TensorFlow.

  Attributes:
    inputs: spec of each argument of a call, without the batch dimension.
    prefers_numpy: whether a call in NumPy is faster than a call of a graph.
    needs_random: whether calls take an argument `random`: a Generator in NumPy,
      a seed int32 [2] in TensorFlow, or None for no noise.
  """

  @property
  def inputs(self) -> tuple[specs.Array, ...]:
    """See the attributes of the class."""
    ...

  @property
  def prefers_numpy(self) -> bool:
    """See the attributes of the class."""
    ...

  @property
  def needs_random(self) -> bool:
    """See the attributes of the class."""
    ...

  def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """Returns the outputs.

    Args:
      *args: the `layers.Layers` of the network, then each input [B, ...].
      **kwargs: `random`, if the network needs it, and others of the network.
    """
    ...


class PolicyDeclaration(Declaration, typing.Protocol):
  """Declares a network whose outputs determine actions."""

  def greedy(
    self, ops: typing.Any, outputs: typing.Any
  ) -> Mapping[str, typing.Any]:
    """Returns the greedy action, {'action': [B, ...]}, for evaluation.

    A recurrent network adds 'next_state' [B, ...], its state after the step.

    Args:
      ops: module that computes, `numpy_ops`, `tf_ops` or an ONNX graph.
      outputs: outputs of a call of the network.
    """
    ...


class ActingNetwork(typing.Protocol):
  """A network for acting, which takes its variables from a learner."""

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the variables by the result of a learner's `get_variables`."""
    ...

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    """Returns the outputs of the declaration, as NumPy arrays.

    Args:
      *inputs: inputs of the declaration, [B, ...] each.
      random: source of noise for declarations that need it, or None for no
        noise.
    """
    ...


def make_acting(declaration: Declaration, name: str = "") -> ActingNetwork:
  """Makes the fastest way to act with a network.

  A call of a `tf.function` costs 200 to 300 microseconds before it computes
  anything. A batch of observations through a small MLP costs a fifth of that
  in NumPy, so small networks run in NumPy, without TensorFlow.

  Args:
    declaration: declaration of the network.
    name: prefix of the network's variables among the loaded ones; see
      `tf_network.Network`.
  """
  if declaration.prefers_numpy:
    return _NumPyNetwork(declaration, name)
  # Imported here, since processes with small networks don't need TensorFlow.
  from slipway.agents.networks import tf_network

  return tf_network.ActingNetwork(declaration, name)


def variable_shapes(declaration: Declaration) -> dict[str, tuple[int, ...]]:
  """Returns the shapes of a network's variables by name, without making them.

  Args:
    declaration: declaration of the network.
  """
  shapes: dict[str, tuple[int, ...]] = {}

  def record_shape(
    name: str, shape: tuple[int, ...], initializer: typing.Any
  ) -> np.ndarray:
    del initializer  # no values are needed
    shapes[name] = shape
    # Zeros that take the memory of one number, whatever the shape.
    return np.broadcast_to(np.float32(0.0), shape)

  def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    del b
    return np.zeros((len(x), w.shape[1]), np.float32)

  ops = types.SimpleNamespace(**vars(numpy_ops) | {"linear": linear})
  declaration(
    layers_lib.Layers(ops, record_shape),
    *(np.zeros((1, *x.shape), x.dtype) for x in declaration.inputs),
  )
  return shapes


class _NumPyNetwork:
  """Acting network that computes in NumPy, for small networks."""

  def __init__(self, declaration: Declaration, name: str):
    self._declaration, self._name = declaration, name
    self._layers = layers_lib.Layers(
      numpy_ops, lambda name, shape, initializer: self._variables[name]
    )
    self._variables: dict[str, np.ndarray] = {}

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._variables = select_variables(variables, self._name)

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    if self._declaration.needs_random:
      return self._declaration(self._layers, *inputs, random=random)
    return self._declaration(self._layers, *inputs)


def select_variables(
  variables: Mapping[str, np.ndarray], name: str
) -> dict[str, np.ndarray]:
  """Returns the variables of the network `name`, by names without it."""
  if not name:
    return dict(variables)
  prefix = f"{name}/"
  return {
    key[len(prefix) :]: value
    for key, value in variables.items()
    if key.startswith(prefix)
  }
