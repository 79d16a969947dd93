"""Declarations of networks, which learn in TensorFlow and act in NumPy.

A declaration computes outputs with `layers.Layers`. `tf_network.Network` adds
variables to train. `make_acting` adds arrays that a learner published:

    declaration = q_network.QNetwork(config.network, spec)
    online = tf_network.Network(declaration, seed=1)     # the trainer
    acting = network.make_acting(declaration)            # a worker
    acting.load(online.get_variables())
    values = acting(observation, random=generator).values  # [B, A]
"""

import typing
from collections.abc import Mapping

import numpy as np
from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import numpy_ops


class Declaration(typing.Protocol):
  """Function from inputs to a network's outputs, for NumPy and TensorFlow."""

  @property
  def inputs(self) -> tuple[specs.Array, ...]:
    """Spec of each input of a call, without the batch dimension."""
    ...

  @property
  def prefers_numpy(self) -> bool:
    """Whether acting is faster in NumPy than in a TensorFlow graph."""
    ...

  @property
  def needs_random(self) -> bool:
    """Whether calls take an argument `random`, for noise.

    It is a Generator in NumPy, a seed int32 [2] in TensorFlow, or None.
    """
    ...

  def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
    """Returns the network's outputs for a batch of inputs.

    Args:
      *args: the `layers.Layers` of the network, then each input [B, ...].
      **kwargs: `random`, if `needs_random`, and options of the network.
    """
    ...


class PolicyDeclaration(Declaration, typing.Protocol):
  """Declaration of a network whose outputs determine actions."""

  def greedy(
    self, ops: typing.Any, outputs: typing.Any
  ) -> Mapping[str, typing.Any]:
    """Returns the greedy actions, {'action': [B, ...]}, for exported policies.

    A recurrent network adds 'next_state' [B, ...], its state after the step.
    """
    ...


class ActingNetwork(typing.Protocol):
  """Network that actors call, with variables that a learner published."""

  def load(self, variables: Mapping[str, np.ndarray]) -> None:
    """Replaces the variables by the result of `Learner.get_variables`."""
    ...

  def __call__(
    self, *inputs: np.ndarray, random: np.random.Generator | None = None
  ) -> typing.Any:
    """Returns the declaration's outputs for a batch of inputs, NumPy arrays.

    Args:
      *inputs: inputs of the declaration, [B, ...] each.
      random: generator for declarations that need noise, or None for no noise.
    """
    ...


def make_acting(declaration: Declaration, name: str = "") -> ActingNetwork:
  """Makes the acting network, in NumPy or TensorFlow, whichever is faster.

  A call of a `tf.function` costs 200 to 300 microseconds before it computes
  anything. A small MLP takes a fifth of that for a batch in NumPy. So networks
  with `prefers_numpy` run in NumPy, without TensorFlow.

  Args:
    name: name of the network, the prefix of its variables' names; see
      `tf_network.Network`.
  """
  if declaration.prefers_numpy:
    return _NumPyNetwork(declaration, name)
  # Imported here, since processes with small networks don't need TensorFlow.
  from slipway.agents.networks import tf_network

  return tf_network.ActingNetwork(declaration, name)


def variable_shapes(declaration: Declaration) -> dict[str, tuple[int, ...]]:
  """Returns the shapes of a network's variables, by name.

  No initial values are computed.

  Raises:
    ValueError: layers share a name that should not; see
      `layers.VariableShapes`.
  """
  found = layers_lib.VariableShapes()
  declaration(
    layers_lib.make_trial_layers(found),
    *(np.zeros((1, *x.shape), x.dtype) for x in declaration.inputs),
  )
  return found.shapes


class _NumPyNetwork:
  """Acting network that computes in NumPy; see `ActingNetwork`."""

  def __init__(self, declaration: Declaration, name: str):
    """Makes the network without variables; `load` must be called first."""
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
  """Selects one network's variables, and removes the prefix of their names.

  Args:
    name: name of the network. If '', all variables are returned.

  Returns:
    Variables by name: 'torso/linear_0/w' for 'NAME/torso/linear_0/w'.
  """
  if not name:
    return dict(variables)
  prefix = f"{name}/"
  return {
    key[len(prefix) :]: value
    for key, value in variables.items()
    if key.startswith(prefix)
  }
