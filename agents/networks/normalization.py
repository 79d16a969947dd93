"""Normalization of observations to mean 0 and deviation 1 in acting networks.

The trainer computes the statistics (`agents/normalizer.py`), and publishes them
with the variables. Acting networks apply the statistics as their first layer.
"""

import math
import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import initializers
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

# Names of an acting network's variables with the mean of observations, and with
# the reciprocal of their standard deviation.
MEAN, SCALE = "normalization/mean", "normalization/scale"

# Largest absolute value of normalized observations and one-step rewards, in
# standard deviations. Engstrom et al. 2020, "Implementation matters in deep
# policy gradients" (https://arxiv.org/abs/2005.12729), section 2, clip both;
# the value is that of Stable-Baselines3.
CLIP = 10.0


def normalizes_observations(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a whole config selects normalized observations."""
  return bool(config.get("normalization", {}).get("observations", False))


def normalizes_rewards(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a whole config selects normalized rewards."""
  return bool(config.get("normalization", {}).get("rewards", False))


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError if an environment's observations can't be normalized.

  uint8 images alone can't; uint8 vectors can. Does nothing if the config
  selects no normalization of observations.
  """
  observations = arrays.remove_mask(spec.observations)
  is_image = observations.dtype == np.uint8 and len(observations.shape) > 1
  is_only_images = not math.prod(normalized_shape(observations))
  if normalizes_observations(config) and (is_image or is_only_images):
    raise ValueError(
      "config.normalization.observations=True is for vectors, but the "
      f"environment gives uint8 {list(observations.shape)}, images, whose "
      "pixels have one scale already: use --noconfig.normalization.observations"
    )


def normalized_shape(observations: specs.Array) -> tuple[int, ...]:
  """Returns the shape of what is normalized of an observation.

  It is the observation without its mask, or the numbers of one that has images,
  too. What is not normalized comes after it in a flat observation.
  """
  observations = arrays.remove_mask(observations)
  if isinstance(observations, arrays.MixedArray):
    return (observations.numbers,)
  return tuple(observations.shape)


def apply(
  ops: typing.Any,
  observation: layers_lib.Array,
  mean: layers_lib.Array,
  scale: layers_lib.Array,
  clip: float = CLIP,
) -> layers_lib.Array:
  """Returns (observation - mean) * scale in [-clip, clip], float32 [B, ...].

  Args:
    observation: observations [B, ...].
    mean: mean of observations, [...].
    scale: reciprocal of the standard deviation of observations, [...].
  """
  return ops.clip((ops.float32(observation) - mean) * scale, -clip, clip)


def apply_to_first(
  ops: typing.Any,
  observation: layers_lib.Array,
  mean: layers_lib.Array,
  scale: layers_lib.Array,
) -> layers_lib.Array:
  """Returns observations, as float32, whose first numbers are normalized.

  Args:
    observation: observations [B, ...]; flat ones [B, N + R], if R numbers are
      not normalized.
    mean: mean of observations [...]; of N numbers, if R > 0.
    scale: as `mean`, the reciprocal of the standard deviation.
  """
  size = math.prod(mean.shape)
  if math.prod(observation.shape[1:]) == size:
    return apply(ops, observation, mean, scale)
  mean, scale = ops.reshape(mean, (size,)), ops.reshape(scale, (size,))
  first = apply(ops, observation[:, :size], mean, scale)
  return ops.concat([first, ops.float32(observation[:, size:])])


def normalize(
  layers: layers_lib.Layers,
  observation: layers_lib.Array,
  spec: specs.Array,
) -> layers_lib.Array:
  """Returns normalized observations [B, ...], an acting network's first layer.

  Args:
    layers: layers with the network's variables, which include `MEAN` and
      `SCALE`.
    observation: observations [B, ...] without masks.
  """
  shape = normalized_shape(spec)
  return apply_to_first(
    layers.ops,
    observation,
    layers.variable(MEAN, shape, initializers.zeros),
    layers.variable(SCALE, shape, initializers.ones),
  )
