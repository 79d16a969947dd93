"""Networks of critics, which value actions."""

import typing

from acme import specs

from slipway.agents.networks import action_masks, initializers
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class CriticNetwork:
  """Declaration of C MLPs that value continuous actions: q_i(o, a)."""

  needs_random, prefers_numpy = False, True

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    sizes: tuple[int, ...],
    critics: int = 1,
    outputs: int = 1,
    activation: str = "relu",
    scheme: initializers.Scheme = initializers.TRUNCATED_NORMAL,
    layer_norm: str = "none",
  ):
    """Declares the network.

    Args:
      spec: spec of an environment with continuous actions.
      sizes: number of units of each linear layer before the output.
      critics: C, the number of critics.
      outputs: K, the number of outputs per critic.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
      layer_norm: see `layers.mlp`.
    """
    self.inputs = (spec.observations, spec.actions)
    self._sizes, self._activation = tuple(sizes), activation
    self._critics, self._outputs, self._scheme = critics, outputs, scheme
    self._layer_norm = layer_norm

  def __call__(self, layers: layers_lib.Layers, *inputs: Array) -> Array:
    """Returns outputs [B, C, K] for inputs [B, ...]: observations, actions."""
    ops = layers.ops
    joined = ops.concat([ops.float32(ops.flatten(x)) for x in inputs])
    outputs = []
    for i in range(self._critics):
      x = layers_lib.mlp(
        layers,
        f"critic_{i}/torso",
        joined,
        self._sizes,
        self._activation,
        self._scheme.hidden,
        self._layer_norm,
      )
      outputs.append(
        layers.linear(
          f"critic_{i}/output", x, self._outputs, self._scheme.values
        )
      )
    return ops.stack(outputs, 1)


class DiscreteCriticNetwork(CriticNetwork):
  """Declaration of C MLPs that value all A discrete actions: q_i(o, .)."""

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    sizes: tuple[int, ...],
    critics: int,
    activation: str,
    scheme: initializers.Scheme,
    layer_norm: str,
  ):
    """Declares the network; arguments as for `CriticNetwork`.

    Args:
      spec: spec of an environment with A discrete actions.
      sizes: number of units of each linear layer before the output.
      critics: C, the number of critics.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
      layer_norm: see `layers.mlp`.
    """
    actions = typing.cast(specs.DiscreteArray, spec.actions).num_values
    super().__init__(
      spec, sizes, critics, actions, activation, scheme, layer_norm
    )
    self.inputs = (spec.observations,)
    self._mask_splitter = action_masks.MaskSplitter(spec)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns values [B, C, A] for observations [B, ...].

    Those of illegal actions have no meaning.
    """
    unmasked, _ = self._mask_splitter.split(layers.ops, observation)
    return super().__call__(layers, unmasked)
