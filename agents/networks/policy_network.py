"""Feed-forward networks of policies, and of policies with state values."""

import typing

from acme import specs

from slipway.agents.networks import (
  action_masks,
  initializers,
  policy_head,
  torsos,
)
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class PolicyNetwork:
  """Declaration of a policy network: a torso, then a `policy_head.PolicyHead`.

  See `network.PolicyDeclaration`.

  Attributes:
    head: the output layer.
  """

  needs_random = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    kind: str,
    activation: str = "relu",
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
    normalized: bool = False,
    layer_norm: str = "none",
  ):
    """Declares the network.

    Args:
      spec: spec of one environment.
      torso: see `torsos.apply_torso`.
      sizes: number of units of each linear layer before the output.
      kind: one of `distributions.KINDS`.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
      normalized: whether the first layer normalizes observations. True for
        acting networks only, as learners normalize batches.
      layer_norm: layer normalization, as for `layers.mlp`.

    Raises:
      ValueError: no distribution has this name.
    """
    self.inputs = (spec.observations,)
    self.prefers_numpy = torsos.is_small(torso)
    self.head = policy_head.PolicyHead(spec, kind, scheme)
    self._mask_splitter = action_masks.MaskSplitter(spec)
    self._torso, self._sizes = torso, tuple(sizes)
    self._activation = activation
    self._initializer = scheme.hidden
    self._normalized, self._layer_norm = normalized, layer_norm

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns distribution parameters [B, P] for observations [B, ...]."""
    return self.head(layers, *self.features(layers, observation))

  def features(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array | None]:
    """Returns the inputs of the head for observations [B, ...].

    Returns:
      Features [B, F], and penalties of illegal actions [B, P] or [P], or None;
      see `action_masks.MaskSplitter.split`.
    """
    observation, penalty = self._mask_splitter.split(layers.ops, observation)
    x = torsos.apply_torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      self._initializer,
      self._normalized,
      self._layer_norm,
    )
    return x, penalty

  def greedy(self, ops: typing.Any, outputs: Array) -> dict[str, Array]:
    """Returns the most probable actions, {'action': [B, ...]}.

    Args:
      ops: array operations: `numpy_ops` or `tf_ops`.
      outputs: distribution parameters [B, P].
    """
    return {"action": self.head.distribution(ops, outputs).mode()}


class PolicyValueNetwork:
  """Declaration of a network of policy and state values with a shared torso.

  Learners use this network. Actors use the `PolicyNetwork` inside it, with the
  same variables.
  """

  needs_random = False

  def __init__(self, policy: PolicyNetwork, scheme: initializers.Scheme):
    """Declares the network.

    Args:
      policy: declaration of the torso and the policy head.
      scheme: initializers of the layers.
    """
    self.inputs, self.prefers_numpy = policy.inputs, policy.prefers_numpy
    self._policy = policy
    self._initializer = scheme.values

  def __call__(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array]:
    """Returns distribution parameters [B, P] and state values [B]."""
    # The penalty makes illegal actions improbable; see `action_masks`.
    x, penalty = self._policy.features(layers, observation)
    parameters = self._policy.head(layers, x, penalty)
    values = layers.linear("value", x, 1, self._initializer)[:, 0]
    return parameters, values
