"""Torsos: features of observations, and which observations they take."""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import layers as layers_lib
from slipway.agents.networks import numpy_ops
from slipway.configs import parts

# Torsos that act faster in NumPy than in TensorFlow.
_SMALL = ("mlp", "minatar_cnn")


def is_small(kind: str) -> bool:
  """Whether a torso acts faster in NumPy than in TensorFlow.

  Args:
    kind: see `torso`; a function of the user's is small unless it has an
      attribute `small` that is false.
  """
  return (
    getattr(_load(kind), "small", True)
    if parts.is_own(kind)
    else (kind in _SMALL)
  )


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError, one line, if the torso can't take the observations."""
  shape, dtype = spec.observations.shape, spec.observations.dtype
  if parts.is_own(config.torso):
    _check_own(config.torso, spec)
    return
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
) -> typing.Any:
  """Features [B, F] of observations [B, ...].

  Convolutions of the kind, each followed by a ReLU, then linear layers.

  Args:
    layers: of the network.
    kind: `config.network.torso`: 'mlp', 'minatar_cnn' (Young and Tian 2019,
      section 4), 'nature_cnn' (Mnih et al. 2015, methods, "Model
      architecture"), or 'module:name' of a function of the user's. It gets
      `layers` and the observations, and returns [B, ...].
    sizes: units of the linear layers.
    observation: as `check` allows for the kind.
    activation: of the linear layers, as of `layers.mlp`.
    gain: of an orthogonal initialisation; None: truncated normal.
  """
  x, relu = observation, layers.ops.relu
  if kind == "nature_cnn":
    x = relu(layers.frames_conv("torso/conv_0", x, 32, gain))
    x = relu(layers.conv("torso/conv_1", x, 64, 4, 2, gain))
    x = relu(layers.conv("torso/conv_2", x, 64, 3, 1, gain))
  elif kind == "minatar_cnn":
    x = relu(layers.conv("torso/conv_0", x, 16, 3, 1, gain))
  elif parts.is_own(kind):
    x = _load(kind)(layers, x)
  x = layers.ops.float32(layers.ops.flatten(x))
  return layers_lib.mlp(layers, "torso", x, sizes, activation, gain)


def _load(kind: str) -> typing.Any:
  return parts.load(
    "config.network.torso", kind, "a function of layers and observations"
  )


def _check_own(kind: str, spec: specs.EnvironmentSpec) -> None:
  """Calls the user's function once, on zeros, in NumPy."""
  random = np.random.default_rng(0)
  layers = layers_lib.Layers(
    numpy_ops,
    lambda name, shape, initializer: initializer(random, shape),
  )
  observation = np.zeros((2, *spec.observations.shape), spec.observations.dtype)
  function = _load(kind)
  try:
    shape = np.shape(function(layers, observation))
  except Exception as error:
    said = " ".join(str(error).split())
    raise ValueError(
      f"config.network.torso={kind!r} fails on observations "
      f"{observation.dtype} {list(observation.shape)} ({type(error).__name__}: "
      f"{said}), so there would be no network: correct the function"
    ) from error
  if len(shape) < 2 or shape[0] != 2:
    raise ValueError(
      f"config.network.torso={kind!r} returns {list(shape)} for a batch of 2, "
      "so there would be no features: return [B, ...]"
    )
