"""Policies, values of states, and values of continuous actions."""

import math
import typing

import numpy as np
from acme import specs

from slipway.agents.networks import (
  action_masks,
  distributions,
  initializers,
  torsos,
)
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array

# Of the logarithm of a tanh-Gaussian's deviation: Haarnoja et al. 2018, the
# authors' code (https://github.com/rail-berkeley/softlearning).
LOWEST_LOG_STD, HIGHEST_LOG_STD = -20.0, 2.0


class PolicyNetwork:
  """The parameters of pi(. | o), a distribution of `distributions`.

  The deviation of a 'gaussian' is a variable, independent of the observation:
  Schulman et al. 2017, "Proximal policy optimization", section 6.1. That of a
  'tanh_gaussian' is an output.
  """

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
      spec: of the environment; A actions, actions of A numbers, or actions of
        K components with at most N values.
      torso: see `torsos.torso`.
      sizes: units of the linear layers before the output.
      kind: one of `distributions.KINDS`.
      activation: 'relu' or 'tanh'.
      orthogonal: orthogonal initialisation, with a gain of sqrt(2), and 0.01
        for the output; otherwise truncated normal.
      normalized: whether it normalizes its observations; where it learns, the
        learner does.

    Raises:
      ValueError: no distribution has this name.
    """
    distributions.check_kind(kind)
    self.inputs, self.small = (spec.observations,), torsos.is_small(torso)
    self._mask = action_masks.ActionMask(spec)
    self._torso, self._sizes, self._kind = torso, tuple(sizes), kind
    self._activation, self._orthogonal = activation, orthogonal
    self._components = 1
    self._normalized = normalized
    if kind == "categorical":
      self._actions = spec.actions.num_values
    elif kind == "product_categorical":
      components = typing.cast(typing.Any, spec.actions).sizes
      self._components = len(components)
      self._actions = self._components * max(components)
    else:
      self._actions = int(np.prod(spec.actions.shape))

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Parameters [B, P] of observations [B, ...].

    P is A for 'categorical', the logits; K N for 'product_categorical', those
    of each component; otherwise 2 A, the means and then the logarithms of the
    deviations.
    """
    ops, size = layers.ops, self._actions
    observation, penalty = self._mask.split(ops, observation)
    x = torsos.torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      math.sqrt(2) if self._orthogonal else None,
      self._normalized,
    )
    if self._kind == "tanh_gaussian":
      size = 2 * size
    gain = 0.01 if self._orthogonal else None
    output = layers.linear("output", x, size, gain)
    if self._kind in ("categorical", "product_categorical"):
      return output if penalty is None else output + penalty
    if self._kind == "gaussian":
      log_std = layers.variable("log_std", (size,), initializers.zeros)
      return ops.concat([output, ops.broadcast_to(log_std, ops.shape(output))])
    mean, log_std = ops.split(output, 2)
    return ops.concat(
      [mean, ops.clip(log_std, LOWEST_LOG_STD, HIGHEST_LOG_STD)]
    )

  def greedy(self, ops: typing.Any, outputs: Array) -> dict[str, Array]:
    """The 'action' that is the policy's mode, [B, ...]."""
    return {"action": self.distribution(ops, outputs).mode()}

  def distribution(
    self, ops: typing.Any, parameters: Array
  ) -> distributions.Distribution:
    """The distribution of parameters [B, P], in NumPy or in TensorFlow."""
    return distributions.make_distribution(
      self._kind, ops, parameters, self._components
    )


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
    self._mask = action_masks.ActionMask(spec)
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
      math.sqrt(2) if self._orthogonal else None,
    )
    gain = 1.0 if self._orthogonal else None
    return layers.linear("output", x, 1, gain)[:, 0]


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
