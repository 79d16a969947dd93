"""Conversion between a gymnasium space's own values and those of the specs.

Agents see the values of `specs`: float32 observations, actions counted from 0
or in [-1, 1]. Environments, and files of recorded episodes, hold the values of
the space. Each function here takes a batch of either and returns the other.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from slipway.environments import checked

Convert = Callable[[np.ndarray], np.ndarray]


def make_observation_reader(
  space: gymnasium.Space, dtype: np.dtype, copy: bool
) -> Convert:
  """Returns the function from a space's observations to those of the spec.

  Args:
    space: Discrete or Box, of one environment.
    dtype: The spec's.
    copy: Whether the result of a Box must be a new array. Otherwise an array
      that already has `dtype` is returned as it is.
  """
  if isinstance(space, spaces.Discrete):
    size, start = int(space.n), int(space.start)

    def one_hot(observations: np.ndarray) -> np.ndarray:
      ones = observations - start
      if ones.min() < 0 or ones.max() >= size:
        index = int(np.argmax((ones < 0) | (ones >= size)))
        raise checked.Fault(
          index,
          f"the observation {observations[index]} is not in its "
          f"observation_space {space}: correct one of them",
        )
      result = np.zeros((len(ones), size), dtype)
      result[np.arange(len(ones)), ones] = 1
      return result

    return one_hot
  if copy or dtype != space.dtype:
    return lambda observations: np.array(observations, dtype, order="C")
  return lambda observations: observations


def write_observations(
  space: gymnasium.Space, observations: np.ndarray
) -> np.ndarray:
  """Converts observations of the spec [B, ...] to the space's own."""
  if isinstance(space, spaces.Discrete):
    return observations.argmax(axis=1) + int(space.start)
  return observations.astype(space.dtype, copy=False)


def make_action_writer(space: gymnasium.Space) -> Convert | None:
  """Returns the function from actions of the spec to a space's own.

  Actions for a Box are clipped to [-1, 1] and rescaled to the Box's bounds,
  which -1 and 1 reach exactly.

  Args:
    space: Discrete, or a Box of bounded floats, of one environment.

  Returns:
    The function, or None if both are the same.
  """
  if isinstance(space, spaces.Discrete):
    start = int(space.start)
    return (lambda actions: actions + start) if start else None
  low, high, dtype = *_bounds(space), space.dtype

  def rescale(actions: np.ndarray) -> np.ndarray:
    # In float64: rounding to float32 then can't leave the bounds.
    part = (np.clip(actions, -1.0, 1.0).astype(np.float64) + 1.0) * 0.5
    return (low * (1.0 - part) + high * part).astype(dtype, copy=False)

  return rescale


def write_actions_with(ops: Any, space: gymnasium.Space, actions: Any) -> Any:
  """Converts actions of the spec by an `ops` module, such as an ONNX graph.

  Args:
    ops: with `clip`.
    space: Discrete or Box, of one environment; actions for another are
      returned as they are.
    actions: [B, ...], with arithmetic operators.
  """
  if isinstance(space, spaces.Discrete):
    return actions + np.int32(space.start)
  if not isinstance(space, spaces.Box):
    return actions
  low, high = (bound.astype(np.float32) for bound in _bounds(space))
  return (ops.clip(actions, -1.0, 1.0) + 1.0) * (0.5 * (high - low)) + low


def read_actions(space: gymnasium.Space, actions: np.ndarray) -> np.ndarray:
  """Converts a space's own actions [B, ...] to those of the spec.

  Values outside of a Box's bounds become -1 or 1; a dimension whose bounds are
  equal becomes 0.
  """
  if isinstance(space, spaces.Discrete):
    return (actions - int(space.start)).astype(np.int32)
  low, high = _bounds(space)
  width = np.where(high > low, high - low, 1.0)
  scaled = (2.0 * actions - low - high) / width
  return np.clip(scaled, -1.0, 1.0).astype(np.float32)


def _bounds(space: Any) -> tuple[np.ndarray, np.ndarray]:
  return space.low.astype(np.float64), space.high.astype(np.float64)
