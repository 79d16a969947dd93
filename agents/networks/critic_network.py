"""Networks of critics, which value actions."""

from acme import specs

from slipway.agents.networks import action_masks
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class CriticNetwork:
  """Declaration of C MLPs that value continuous actions: q_i(o, a)."""

  needs_random, prefers_numpy = False, True

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    critics: int = 1,
    outputs: int = 1,
  ):
    self.inputs = (spec.observations, spec.actions)
    self._settings, self._critics, self._outputs = settings, critics, outputs

  def __call__(self, layers: layers_lib.Layers, *inputs: Array) -> Array:
    """Returns outputs [B, C, K] for inputs [B, ...]: observations, actions."""
    ops, initializer = layers.ops, self._settings.scheme.values
    joined = ops.concat([ops.float32(ops.flatten(x)) for x in inputs])
    outputs = []
    for i in range(self._critics):
      x = layers_lib.mlp(layers, f"critic_{i}/torso", joined, self._settings)
      outputs.append(
        layers.linear(f"critic_{i}/output", x, self._outputs, initializer)
      )
    return ops.stack(outputs, 1)


class StateCriticNetwork(CriticNetwork):
  """Declaration of C MLPs that value all A discrete actions, or observations.

  The values are q_i(o, .), or v_i(o) with one output.
  """

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    settings: layers_lib.TorsoSettings,
    critics: int = 1,
    outputs: int = 1,
  ):
    """Declares the network; arguments as for `CriticNetwork`."""
    super().__init__(spec, settings, critics, outputs)
    self.inputs = (spec.observations,)
    self._mask_splitter = action_masks.MaskSplitter(spec)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns values [B, C, K] for observations [B, ...].

    Those of illegal actions have no meaning.
    """
    unmasked, _ = self._mask_splitter.split(layers.ops, observation)
    return super().__call__(layers, unmasked)
