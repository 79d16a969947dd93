"""Networks of features, which policy and critics share."""

import numpy as np
from acme import specs

from slipway.agents.networks import action_masks, torsos
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = layers_lib.Array  # np.ndarray or tf.Tensor


class EncoderNetwork:
  """Declaration of a torso without linear layers, which networks can share.

  Attributes:
    spec: spec of the environment with features [F] in place of observations,
      from which networks on these features are declared. Action masks stay.
  """

  needs_random, prefers_numpy = False, True

  def __init__(
    self, spec: specs.EnvironmentSpec, settings: layers_lib.TorsoSettings
  ):
    self.inputs = (spec.observations,)
    self._settings = settings
    self._mask_splitter = action_masks.MaskSplitter(spec)
    observations = spec.observations
    size = torsos.count_features(settings, arrays.remove_mask(observations))
    features = specs.Array((size,), np.float32, "features")
    self._mask_size = 0
    if isinstance(observations, arrays.MaskedArray):
      self._mask_size = observations.mask_size
      features = arrays.MaskedArray(features, self._mask_size)
    self.spec = spec._replace(observations=features)

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns features [B, F] of observations [B, ...].

    Those of masked observations are followed by the masks.
    """
    ops = layers.ops
    unmasked, _ = self._mask_splitter.split(ops, observation)
    features = torsos.encode(
      layers, self._settings, unmasked, self._mask_splitter.observations
    )
    if not self._mask_size:
      return features
    mask = ops.float32(observation[:, -self._mask_size :])
    return ops.concat([features, mask])
