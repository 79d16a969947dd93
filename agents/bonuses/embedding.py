"""Networks of bonuses: features of observations, and functions of vectors."""

import math
import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import initializers, tf_network, torsos
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

Array = typing.Any  # np.ndarray or tf.Tensor

# Initial weights: orthogonal, with a gain of sqrt(2) before ReLUs and of 1 at
# the outputs, so that outputs vary about as much as the inputs.
_SCHEME = initializers.SCHEMES["orthogonal"]


def make_whitened_spec(torso: str, observations: specs.Array) -> specs.Array:
  """Returns the spec of whitened observations, as the networks' inputs.

  Images are flat. Torsos for uint8 images take them as parts of a Dict.

  Args:
    torso: name of the torso of `Embedding`.
    observations: spec of observations without masks.
  """
  if isinstance(observations, arrays.MixedArray):
    return observations
  if torso in torsos.CONVOLUTIONS:
    return arrays.MixedArray(0, [observations.shape])
  return specs.Array(observations.shape, np.float32)


def find_factors(observations: specs.Array) -> np.ndarray:
  """Returns what torsos divide the values of whitened observations by."""
  factors = np.ones(math.prod(observations.shape), np.float32)
  if isinstance(observations, arrays.MixedArray):
    factors[observations.numbers :] = 255.0
  return factors.reshape(observations.shape)


class Embedding:
  """Declaration of a network of F features: torso, and a linear layer."""

  needs_random, prefers_numpy = False, False

  def __init__(
    self,
    observations: specs.Array,
    settings: layers_lib.TorsoSettings,
    features: int,
  ):
    self.inputs = (observations,)
    self._settings, self._features = settings, features

  def __call__(self, layers: layers_lib.Layers, observation: Array) -> Array:
    """Returns features [B, F] of observations [B, ...]."""
    x = torsos.apply_torso(layers, self._settings, observation, self.inputs[0])
    return layers.linear("output", x, self._features, _SCHEME.values)


def make_embedding(
  config: ml_collections.ConfigDict,
  observations: specs.Array,
  sizes: tuple[int, ...],
  name: str,
) -> tf_network.Network:
  """Returns a network of `bonus.features` features, with the config's torso."""
  settings = layers_lib.TorsoSettings(
    config.network.torso, sizes, scheme=_SCHEME
  )
  declaration = Embedding(observations, settings, config.bonus.features)
  return tf_network.Network(declaration, config.seed, name)


class Perceptron:
  """Declaration of a network of vectors: two inputs, one hidden layer."""

  needs_random, prefers_numpy = False, False

  def __init__(self, sizes: tuple[int, int], hidden: int, outputs: int):
    self.inputs = tuple(specs.Array((size,), np.float32) for size in sizes)
    self._settings = layers_lib.TorsoSettings("mlp", (hidden,), scheme=_SCHEME)
    self._outputs = outputs

  def __call__(
    self, layers: layers_lib.Layers, first: Array, second: Array
  ) -> Array:
    """Returns the outputs [B, outputs] of inputs [B, size] each."""
    joined = layers.ops.concat([first, second])
    x = layers_lib.mlp(layers, "hidden", joined, self._settings)
    return layers.linear("output", x, self._outputs, _SCHEME.values)
