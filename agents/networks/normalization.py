"""Normalization of observations to mean 0 and deviation 1, for all networks.

The trainer computes the statistics (`agents/normalizer.py`) and publishes them
with the variables; acting networks apply them as their first layer.
"""

import typing

import ml_collections
import numpy as np
from acme import specs

from slipway.agents.networks import initializers
from slipway.agents.networks import layers as layers_lib
from slipway.environments import arrays

# Names of the statistics among an acting network's variables.
MEAN, SCALE = "normalization/mean", "normalization/scale"

# Engstrom et al. 2020, "Implementation matters in deep policy gradients"
# (https://arxiv.org/abs/2005.12729), section 2, clip observations and rewards;
# the value is that of Stable-Baselines3.
CLIP = 10.0


def normalizes_observations(config: ml_collections.ConfigDict) -> bool:
  """Returns whether the networks of a whole config normalize observations."""
  return bool(config.get("normalization", {}).get("observations", False))


def normalizes_rewards(config: ml_collections.ConfigDict) -> bool:
  """Returns whether the learner of a whole config normalizes rewards."""
  return bool(config.get("normalization", {}).get("rewards", False))


def check(
  config: ml_collections.ConfigDict, spec: specs.EnvironmentSpec
) -> None:
  """Raises ValueError if observations can't be normalized as configured."""
  observations = spec.observations
  if normalizes_observations(config) and isinstance(
    observations, arrays.MaskedArray
  ):
    raise ValueError(
      "config.normalization.observations=True would normalize the action masks "
      "that config.environment.action_mask=True adds to observations: use "
      "--noconfig.normalization.observations"
    )
  if normalizes_observations(config) and observations.dtype == np.uint8:
    raise ValueError(
      "config.normalization.observations=True is for vectors, but the "
      f"environment gives uint8 {list(observations.shape)}, images, which "
      "networks scale themselves: use --noconfig.normalization.observations"
    )


def apply(
  ops: typing.Any,
  observation: layers_lib.Array,
  mean: layers_lib.Array,
  scale: layers_lib.Array,
) -> layers_lib.Array:
  """Returns (observation - mean) scale, clipped to [-CLIP, CLIP].

  Args:
    ops: `numpy_ops` or `tf_ops`.
    observation: observations [B, ...].
    mean: mean of observations, [...].
    scale: 1 / deviation of observations, [...].

  Returns:
    Normalized observations, float32 [B, ...].
  """
  return ops.clip((ops.float32(observation) - mean) * scale, -CLIP, CLIP)


def normalize(
  layers: layers_lib.Layers, observation: layers_lib.Array
) -> layers_lib.Array:
  """Normalizes observations [B, ...]; the first layer of acting networks."""
  shape = tuple(observation.shape[1:])
  return apply(
    layers.ops,
    observation,
    layers.variable(MEAN, shape, initializers.zeros),
    layers.variable(SCALE, shape, initializers.ones),
  )
