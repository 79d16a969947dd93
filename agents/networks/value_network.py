"""Networks of state values."""

from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import torsos


class ValueNetwork:
  """Declaration of a network of state values v(o): torso, linear layer."""

  needs_random = False

  def __init__(
    self, spec: specs.EnvironmentSpec, settings: layers_lib.TorsoSettings
  ):
    self._torso = torsos.Torso(spec, settings)
    self.inputs = self._torso.inputs
    self.prefers_numpy = self._torso.prefers_numpy
    self._initializer = settings.scheme.values

  def __call__(
    self, layers: layers_lib.Layers, observation: layers_lib.Array
  ) -> layers_lib.Array:
    """Returns state values [B] of observations [B, ...]."""
    x, _ = self._torso(layers, observation)
    return layers.linear("output", x, 1, self._initializer)[:, 0]
