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
  """What a network computes.

  Attributes:
    inputs: spec of one item of the batch, of each argument.
    small: whether a call in NumPy is faster than a call of a graph.
    samples: whether the call takes `random`: a Generator in NumPy, a seed
      int32 [2] in TensorFlow, or None for no noise.
  """

  @property
  def inputs(self) -> tuple[specs.Array, ...]:
    """See the attributes of the class."""
    ...

  @property
  def small(self) -> bool:
    """See the attributes of the class."""
    ...

  @property
  def samples(self) -> bool:
    """See the attributes of the class."""
    ...

  def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """The outputs, from `layers.Layers` and the inputs [B, ...]."""
    ...


class PolicyDeclaration(Declaration, typing.Protocol):
  """A network that actions follow from."""

  def greedy(
    self, ops: typing.Any, outputs: typing.Any
  ) -> Mapping[str, typing.Any]:
    """Returns the greedy action of a call's outputs, {'action': [B, ...]}.

    A recurrent network also returns its 'next_state' [B, ...] after the step.

    Args:
      ops: `numpy_ops` or `tf_ops`, which the call was made with.
      outputs: what the call returned.
    """
    ...


class ActingNetwork(typing.Protocol):
  """A network that acts by variables that were loaded."""

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the variables by those of `get_variables` of a learner."""
    ...

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    """The outputs of the declaration, in NumPy.

    Args:
      *inputs: [B, ...] each.
      random: of declarations that sample; None: no noise.
    """
    ...


def make_acting(declaration: Declaration, name: str = "") -> ActingNetwork:
  """Makes the fastest way to act with a network.

  A call of a `tf.function` costs 200 to 300 microseconds before it computes
  anything. A batch of observations through a small MLP costs a fifth of that
  in NumPy, so small networks run in NumPy, without TensorFlow.

  Args:
    declaration: what to compute.
    name: of the network among those whose variables are loaded; see
      `tf_network.Network`.
  """
  if declaration.small:
    return _NumPyNetwork(declaration, name)
  # Heavy, and not needed for small networks.
  from slipway.agents.networks import tf_network

  return tf_network.ActingNetwork(declaration, name)


def variable_shapes(declaration: Declaration) -> dict[str, tuple[int, ...]]:
  """Returns the shapes of a network's variables by name, without making them.

  Args:
    declaration: of the network.
  """
  shapes: dict[str, tuple[int, ...]] = {}

  def variable(
    name: str, shape: tuple[int, ...], initializer: typing.Any
  ) -> np.ndarray:
    del initializer
    shapes[name] = shape
    return np.broadcast_to(np.float32(0.0), shape)  # one number in memory

  def linear(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    del b
    return np.zeros((len(x), w.shape[1]), np.float32)

  ops = types.SimpleNamespace(**vars(numpy_ops) | {"linear": linear})
  declaration(
    layers_lib.Layers(ops, variable),
    *(np.zeros((1, *x.shape), x.dtype) for x in declaration.inputs),
  )
  return shapes


class _NumPyNetwork:
  """A small network, in NumPy."""

  def __init__(self, declaration: Declaration, name: str):
    self._declaration, self._name = declaration, name
    self._layers = layers_lib.Layers(
      numpy_ops, lambda name, shape, initializer: self._variables[name]
    )
    self._variables: dict[str, np.ndarray] = {}

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    self._variables = select(variables, self._name)

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    if self._declaration.samples:
      return self._declaration(self._layers, *inputs, random=random)
    return self._declaration(self._layers, *inputs)


def select(
  variables: Mapping[str, np.ndarray], name: str
) -> dict[str, np.ndarray]:
  """The variables of the network called `name`, without this prefix."""
  if not name:
    return dict(variables)
  prefix = f"{name}/"
  return {
    key[len(prefix) :]: value
    for key, value in variables.items()
    if key.startswith(prefix)
  }
