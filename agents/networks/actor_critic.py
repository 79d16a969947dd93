"""Policies, values of states, and values of continuous actions."""

import math
import typing

import numpy as np
from acme import specs

from slipway.agents.networks import (
  action_masks,
  distributions,
  initializers,
  recurrent,
  torsos,
)
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array

# Of the logarithm of a tanh-Gaussian's deviation: Haarnoja et al. 2018, the
# authors' code (https://github.com/rail-berkeley/softlearning).
LOWEST_LOG_STD, HIGHEST_LOG_STD = -20.0, 2.0


class PolicyHead:
  """The parameters of pi(. | o), a distribution of `distributions`."""

  def __init__(
    self, spec: specs.EnvironmentSpec, kind: str, orthogonal: bool = False
  ):
    """Declares the head.

    Args:
      spec: of the environment; A actions, actions of A numbers, or actions of
        K components with at most N values.
      kind: one of `distributions.KINDS`.
      orthogonal: whether the weights start orthogonal with a gain of 0.01;
        otherwise truncated normal.

    Raises:
      ValueError: no distribution has this name.
    """
    distributions.check_kind(kind)
    self._kind, self._gain = kind, 0.01 if orthogonal else None
    self._components = 1
    if kind == "categorical":
      self._actions = spec.actions.num_values
    elif kind == "product_categorical":
      components = typing.cast(typing.Any, spec.actions).sizes
      self._components = len(components)
      self._actions = self._components * max(components)
    else:
      self._actions = int(np.prod(spec.actions.shape))

  @property
  def size(self) -> int:
    """P, the parameters of one distribution."""
    continuous = self._kind in distributions.CONTINUOUS
    return 2 * self._actions if continuous else self._actions

  def __call__(
    self, layers: layers_lib.Layers, x: Array, penalty: Array | None
  ) -> Array:
    """Parameters [B, P] of features [B, F].

    P is A for 'categorical', the logits; K N for 'product_categorical', those
    of each component; otherwise 2 A, the means and then the logarithms of the
    deviations.

    The deviation of a 'gaussian' is a variable, independent of the observation:
    Schulman et al. 2017, "Proximal policy optimization", section 6.1. That of a
    'conditional_gaussian' and of a 'tanh_gaussian' is an output.

    Args:
      layers: of the network.
      x: the features.
      penalty: what is added to the logits; see `MaskSplitter.split`.
    """
    ops = layers.ops
    free = self._kind == "gaussian"
    size = self._actions if free else self.size
    output = layers.linear("output", x, size, self._gain)
    if self._kind not in distributions.CONTINUOUS:
      return output if penalty is None else output + penalty
    if free:
      log_std = layers.variable("log_std", (size,), initializers.zeros)
      return ops.concat([output, ops.broadcast_to(log_std, ops.shape(output))])
    mean, log_std = ops.split(output, 2)
    return ops.concat(
      [mean, ops.clip(log_std, LOWEST_LOG_STD, HIGHEST_LOG_STD)]
    )

  def distribution(
    self, ops: typing.Any, parameters: Array
  ) -> distributions.Distribution:
    """The distribution of parameters [B, P], in NumPy or in TensorFlow."""
    return distributions.make_distribution(
      self._kind, ops, parameters, self._components
    )


class PolicyNetwork:
  """The parameters of pi(. | o)."""

  samples = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    kind: str,
    activation: str = "relu",
    orthogonal: bool = False,
    normalized: bool = False,
  ):
    """Declares the network.

    Args:
      spec: of one environment.
      torso: see `torsos.torso`.
      sizes: units of the linear layers before the output.
      kind: one of `distributions.KINDS`.
      activation: 'relu' or 'tanh'.
      orthogonal: orthogonal initialisation, with a gain of sqrt(2); otherwise
        truncated normal.
      normalized: whether it normalizes its observations; where it learns, the
        learner does.

    Raises:
      ValueError: no distribution has this name.
    """
    self.inputs, self.small = (spec.observations,), torsos.is_small(torso)
    self.head = PolicyHead(spec, kind, orthogonal)
    self._mask = action_masks.MaskSplitter(spec)
    self._torso, self._sizes = torso, tuple(sizes)
    self._activation, self._gain = activation, hidden_gain(orthogonal)
    self._normalized = normalized

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Parameters [B, P] of observations [B, ...]; see `PolicyHead`."""
    return self.head(layers, *self.features(layers, observation))

  def features(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array | None]:
    """Features [B, F] of observations [B, ...], and the penalty of the head."""
    observation, penalty = self._mask.split(layers.ops, observation)
    x = torsos.torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      self._gain,
      self._normalized,
    )
    return x, penalty

  def greedy(self, ops: typing.Any, outputs: Array) -> dict[str, Array]:
    """The 'action' that is the policy's mode, [B, ...]."""
    return {"action": self.distribution(ops, outputs).mode()}

  def distribution(
    self, ops: typing.Any, parameters: Array
  ) -> distributions.Distribution:
    """The distribution of parameters [B, P], in NumPy or in TensorFlow."""
    return self.head.distribution(ops, parameters)


class ActorCriticNetwork:
  """Policy and values with a shared torso; actors use the policy only."""

  samples = False

  def __init__(self, policy: PolicyNetwork, orthogonal: bool = False):
    """Declares the network.

    Args:
      policy: declares torso and policy.
      orthogonal: whether weights start orthogonal; see `ValueNetwork`.
    """
    self.inputs, self.small = policy.inputs, policy.small
    self._policy, self._orthogonal = policy, orthogonal

  def __call__(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array]:
    """Parameters [B, P] and values [B] of observations [B, ...]."""
    x, penalty = self._policy.features(layers, observation)
    parameters = self._policy.head(layers, x, penalty)
    return parameters, value_head(layers, "value", x, self._orthogonal)


class RecurrentPolicyNetwork:
  """Policy and, if wanted, values with a shared recurrent torso."""

  samples = False

  def __init__(
    self,
    torso: recurrent.RecurrentTorso,
    head: PolicyHead,
    orthogonal: bool = False,
    with_values: bool = False,
  ):
    """Declares the network.

    Args:
      torso: declares the torso.
      head: declares the policy's output.
      orthogonal: whether weights start orthogonal; see `ValueNetwork`.
      with_values: whether it has values; those that act need none.
    """
    self.inputs, self.small, self.head = torso.inputs, torso.small, head
    self._torso, self._orthogonal = torso, orthogonal
    self._with_values = with_values

  def __call__(
    self, layers: layers_lib.Layers, *inputs: Array
  ) -> tuple[Array, Array]:
    """Parameters [B, P] of one step, and the state after it [B, 2 H].

    Args:
      layers: bound to the variables.
      *inputs: those of `recurrent.Inputs`, and the state before the step.
    """
    *seen, state = inputs
    features = self._torso.step(layers, recurrent.Inputs(*seen), state)
    parameters, _ = self._heads(layers, features)
    return parameters, features.state

  def unroll(
    self, layers: layers_lib.Layers, inputs: recurrent.Inputs, state: Array
  ) -> tuple[Array, Array]:
    """Parameters [B T, P] and values [B T] of inputs [B, T, ...].

    Args:
      layers: bound to the variables.
      inputs: T known.
      state: [B, 2 H], before the first.
    """
    return self._heads(layers, self._torso.unroll(layers, inputs, state))

  def greedy(
    self, ops: typing.Any, outputs: tuple[Array, Array]
  ) -> dict[str, Array]:
    """The 'action' that is the policy's mode, and the 'next_state'."""
    parameters, state = outputs
    action = self.head.distribution(ops, parameters).mode()
    return {"action": action, "next_state": state}

  def distribution(
    self, ops: typing.Any, parameters: Array
  ) -> distributions.Distribution:
    """The distribution of parameters [B, P], in NumPy or in TensorFlow."""
    return self.head.distribution(ops, parameters)

  def _heads(
    self, layers: layers_lib.Layers, features: recurrent.Features
  ) -> tuple[Array, Array]:
    parameters = self.head(layers, features.hidden, features.penalty)
    values = None
    if self._with_values:
      values = value_head(layers, "value", features.hidden, self._orthogonal)
    return parameters, values


class ValueNetwork:
  """v(o)."""

  samples = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    activation: str = "relu",
    orthogonal: bool = False,
  ):
    """Declares the network; see `PolicyNetwork`; the output's gain is 1."""
    self.inputs, self.small = (spec.observations,), torsos.is_small(torso)
    self._mask = action_masks.MaskSplitter(spec)
    self._torso, self._sizes = torso, tuple(sizes)
    self._activation, self._orthogonal = activation, orthogonal

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Values [B] of observations [B, ...]."""
    observation, _ = self._mask.split(layers.ops, observation)
    x = torsos.torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      hidden_gain(self._orthogonal),
    )
    return value_head(layers, "output", x, self._orthogonal)


def value_head(
  layers: layers_lib.Layers, name: str, x: Array, orthogonal: bool
) -> Array:
  """Values [B] of features [B, F], by a linear layer."""
  return layers.linear(name, x, 1, 1.0 if orthogonal else None)[:, 0]


def hidden_gain(orthogonal: bool) -> float | None:
  """The gain of an orthogonal initialisation before a ReLU or tanh."""
  return math.sqrt(2) if orthogonal else None


class CriticNetwork:
  """q(o, a) of continuous actions, on observations as flat vectors."""

  samples, small = False, True

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    sizes: tuple[int, ...],
    activation: str = "relu",
  ):
    """Declares the network.

    Args:
      spec: of an environment with continuous actions.
      sizes: units of the linear layers before the output.
      activation: 'relu' or 'tanh'.
    """
    self.inputs = (spec.observations, spec.actions)
    self._sizes, self._activation = tuple(sizes), activation

  def __call__(
    self, layers: layers_lib.Layers, observation: Array, action: Array
  ) -> Array:
    """Values [B] of observations [B, ...] and actions [B, ...]."""
    ops = layers.ops
    x = ops.concat(
      [ops.float32(ops.flatten(part)) for part in (observation, action)]
    )
    x = layers_lib.mlp(layers, "torso", x, self._sizes, self._activation)
    return layers.linear("output", x, 1)[:, 0]
