"""Torsos: features of observations, and which observations they take."""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import normalization

# Torsos that act faster in NumPy than in TensorFlow.
SMALL = ("mlp", "minatar_cnn")


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError, one line, if the torso can't take the observations."""
  shape, dtype = spec.observations.shape, spec.observations.dtype
  if config.torso == "minatar_cnn" and (len(shape) != 3 or min(shape[:2]) < 3):
    raise ValueError(
      f"config.network.torso='minatar_cnn' takes boards [height >= 3, width >= "
      f"3, channels], but the environment gives {dtype} {list(shape)}: use "
      "--config.network.torso=mlp"
    )
  if config.torso != "nature_cnn":
    return
  if len(shape) != 3 or dtype != np.uint8 or min(shape[1:]) < 36:
    raise ValueError(
      f"config.network.torso='nature_cnn' takes uint8 frames [stack, "
      f"height >= 36, width >= 36], but the environment gives {dtype} "
      f"{list(shape)}: use --config.network.torso=mlp"
    )


def torso(
  layers: layers_lib.Layers,
  kind: str,
  sizes: tuple[int, ...],
  observation: typing.Any,
  activation: str = "relu",
  gain: float | None = None,
  normalized: bool = False,
) -> typing.Any:
  """Features [B, F] of observations [B, ...].

  Convolutions of the kind, each followed by a ReLU, then linear layers.

  Args:
    layers: of the network.
    kind: `config.network.torso`: 'mlp', 'minatar_cnn' (Young and Tian 2019,
      section 4) or 'nature_cnn' (Mnih et al. 2015, methods, "Model
      architecture").
    sizes: units of the linear layers.
    observation: as `check` allows for the kind.
    activation: of the linear layers, as of `layers.mlp`.
    gain: of an orthogonal initialisation; None: truncated normal.
    normalized: whether observations are normalized first, by
      `normalization.normalize`.
  """
  if normalized:
    observation = normalization.normalize(layers, observation)
  x, relu = observation, layers.ops.relu
  if kind == "nature_cnn":
    x = relu(layers.frames_conv("torso/conv_0", x, 32, gain))
    x = relu(layers.conv("torso/conv_1", x, 64, 4, 2, gain))
    x = relu(layers.conv("torso/conv_2", x, 64, 3, 1, gain))
  elif kind == "minatar_cnn":
    x = relu(layers.conv("torso/conv_0", x, 16, 3, 1, gain))
  x = layers.ops.float32(layers.ops.flatten(x))
  return layers_lib.mlp(layers, "torso", x, sizes, activation, gain)
