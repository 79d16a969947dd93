"""Feed-forward networks of policies, and of policies with state values."""

import typing

from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import policy_head, torsos

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class PolicyNetwork:
  """Declaration of a policy network: a torso, then a `policy_head.PolicyHead`.

  See `network.PolicyDeclaration`.

  Attributes:
    torso: the layers before the output.
    head: the output layer.
  """

  needs_random = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    kind: str,
  ):
    """Declares the network.

    Raises:
      ValueError: no distribution has this name.
    """
    self.torso = torsos.Torso(spec, settings)
    self.inputs = self.torso.inputs
    self.prefers_numpy = self.torso.prefers_numpy
    self.head = policy_head.PolicyHead(spec, kind, settings.scheme)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns distribution parameters [B, P] for observations [B, ...]."""
    return self.head(layers, *self.torso(layers, observation))

  def greedy(self, ops: typing.Any, outputs: Array) -> dict[str, Array]:
    """Returns the most probable actions, {'action': [B, ...]}."""
    return {"action": self.head.distribution(ops, outputs).mode()}


class PolicyValueNetwork:
  """Declaration of a network of policy and state values with a shared torso.

  Learners use this network. Actors use the `PolicyNetwork` inside it, with the
  same variables.
  """

  needs_random = False

  def __init__(self, policy: PolicyNetwork, settings: layers_lib.TorsoSettings):
    self.inputs, self.prefers_numpy = policy.inputs, policy.prefers_numpy
    self._policy = policy
    self._initializer = settings.scheme.values

  def __call__(
    self, layers: layers_lib.Layers, observation: Array
  ) -> tuple[Array, Array]:
    """Returns distribution parameters [B, P] and state values [B]."""
    x, penalty = self._policy.torso(layers, observation)
    parameters = self._policy.head(layers, x, penalty)
    values = layers.linear("value", x, 1, self._initializer)[:, 0]
    return parameters, values
