"""Networks of state values."""

from acme import specs

from slipway.agents.networks import action_masks, initializers, torsos
from slipway.agents.networks import layers as layers_lib

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class ValueNetwork:
  """Declaration of a network of state values v(o): torso, linear layer."""

  needs_random = False

  def __init__(
    self,
    spec: specs.EnvironmentSpec,
    torso: str,
    sizes: tuple[int, ...],
    activation: str,
    scheme: initializers.Scheme,
  ):
    """Declares the network.

    Args:
      spec: spec of one environment.
      torso: see `torsos.apply_torso`.
      sizes: number of units of each linear layer before the output.
      activation: 'relu' or 'tanh'.
      scheme: initializers of the layers.
    """
    self.inputs = (spec.observations,)
    self.prefers_numpy = torsos.is_small(torso)
    self._mask_splitter = action_masks.MaskSplitter(spec)
    self._torso, self._sizes = torso, tuple(sizes)
    self._activation = activation
    self._scheme = scheme

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns state values [B] of observations [B, ...]."""
    observation, _ = self._mask_splitter.split(layers.ops, observation)
    x = torsos.apply_torso(
      layers,
      self._torso,
      self._sizes,
      observation,
      self._activation,
      self._scheme.hidden,
    )
    return layers.linear("output", x, 1, self._scheme.values)[:, 0]
