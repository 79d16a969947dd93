"""Normalization of observations to mean 0 and deviation 1 in acting networks.

The trainer computes the statistics (`agents/normalizer.py`), and publishes them
with the variables. Acting networks apply the statistics as their first layer.
"""

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

  Observations with action masks and uint8 images can't; uint8 vectors can. Does
  nothing if the config selects no normalization of observations.
  """
  observations = spec.observations
  if normalizes_observations(config) and isinstance(
    observations, arrays.MaskedArray
  ):
    raise ValueError(
      "config.normalization.observations=True would normalize the action masks "
      "that config.environment.action_mask=True adds to observations: use "
      "--noconfig.normalization.observations"
    )
  is_image = observations.dtype == np.uint8 and len(observations.shape) > 1
  if normalizes_observations(config) and is_image:
    raise ValueError(
      "config.normalization.observations=True is for vectors, but the "
      f"environment gives uint8 {list(observations.shape)}, images, whose "
      "pixels have one scale already: use --noconfig.normalization.observations"
    )


def apply(
  ops: typing.Any,
  observation: layers_lib.Array,
  mean: layers_lib.Array,
  scale: layers_lib.Array,
  clip: float = CLIP,
) -> layers_lib.Array:
  """Returns (observation - mean) * scale, clipped to [-clip, clip].

  Args:
    observation: observations [B, ...].
    mean: mean of observations, [...].
    scale: reciprocal of the standard deviation of observations, [...].

  Returns:
    Normalized observations, float32 [B, ...].
  """
  return ops.clip((ops.float32(observation) - mean) * scale, -clip, clip)


def normalize(
  layers: layers_lib.Layers, observation: layers_lib.Array
) -> layers_lib.Array:
  """Returns normalized observations: the first layer of an acting network.

  Args:
    layers: layers with the network's variables, which include `MEAN` and
      `SCALE`.
    observation: observations [B, ...].

  Returns:
    Normalized observations, float32 [B, ...].
  """
  shape = tuple(observation.shape[1:])
  return apply(
    layers.ops,
    observation,
    layers.variable(MEAN, shape, initializers.zeros),
    layers.variable(SCALE, shape, initializers.ones),
  )
