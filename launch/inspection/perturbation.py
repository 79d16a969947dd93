"""Perturbation: how much a policy's actions depend on parts of observations."""

import math
from collections.abc import Iterator

import msgspec
import numpy as np
from acme import specs

from slipway.agents import core, epsilon_greedy
from slipway.environments import arrays

_MAX_SINGLE = 64  # values of an observation that are perturbed one by one
_PATCHES = 6  # patches of an image per side, and groups of a longer vector


class Perturbation(msgspec.Struct, kw_only=True):
  """Effect of a change of a part of the observations on the greedy policy.

  Attributes:
    part: index or range of the values, such as '[2]' or '[14:28, 0:14]'.
    deviation: standard deviation of a single value, by which it was raised and
      lowered; None: a patch or group, whose values became their means, rounded
      if observations are whole numbers.
    action_change: fraction of the observations with another action; for
      continuous actions, whose bounds are -1 and 1, the mean distance.
    value_change: mean distance of the values of the actions; None: the actor
      has none.
  """

  part: str
  deviation: float | None = None
  action_change: float
  value_change: float | None = None


def measure(
  actor: core.Actor, spec: specs.EnvironmentSpec, observations: np.ndarray
) -> list[Perturbation]:
  """Perturbs each part of observations, and compares the actions.

  Args:
    actor: greedy actor of a feed-forward network.
    observations: observations of different moments, [M, ...]; masks of actions
      stay as they are.

  Returns:
    The parts, that with the largest change of the actions first.
  """
  masked = isinstance(spec.observations, arrays.MaskedArray)
  count = math.prod(observations.shape[1:])
  if masked:
    count -= spec.observations.mask_size
  flat = observations.reshape(len(observations), -1)
  means = flat.mean(axis=0, dtype=np.float64)

  def act(changed: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns actions and values of observations [M, N]."""
    zeros = np.zeros(len(changed), np.float32)
    output = actor.act(
      changed.reshape(observations.shape), zeros, zeros.astype(bool)
    )
    value = output.extras.get(epsilon_greedy.VALUE_OF_STATE)
    return np.asarray(output.action), value

  actions, values = act(flat)
  found = []
  for part, indices in _split(observations.shape[1:], count, masked):
    deviation = None
    changes = [means[indices].astype(flat.dtype)]
    if len(indices) == 1:
      deviation = float(flat[:, indices].std(dtype=np.float64))
      changes = [flat[:, indices] + x for x in (deviation, -deviation)]
    action_change = value_change = 0.0
    for change in changes:
      changed = flat.copy()
      changed[:, indices] = change
      new_actions, new_values = act(changed)
      if actions.dtype.kind == "f":
        distance = np.abs(new_actions - actions).mean()
      else:
        rows = (new_actions != actions).reshape(len(actions), -1)
        distance = rows.any(axis=1).mean()
      action_change += float(distance) / len(changes)
      if new_values is not None and values is not None:
        value_change += float(np.abs(new_values - values).mean()) / len(changes)
    found.append(
      Perturbation(
        part=part,
        deviation=deviation,
        action_change=action_change,
        value_change=None if values is None else value_change,
      )
    )
  return sorted(found, key=lambda x: x.action_change, reverse=True)


def _split(
  shape: tuple[int, ...], count: int, is_flat: bool
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields the name and the flat indices of each part of an observation.

  Args:
    count: number of the first values that may be perturbed.
    is_flat: whether an observation is a vector, whatever it was.
  """
  if count <= _MAX_SINGLE:
    for i in range(count):
      yield f"[{i}]", np.array([i])
  elif is_flat or len(shape) < 2:
    for indices in np.array_split(np.arange(count), _PATCHES**2):
      yield f"[{indices[0]}:{indices[-1] + 1}]", indices
  else:
    index = np.arange(count).reshape(shape)
    # The two largest axes are those of an image.
    sides = sorted(np.argsort(shape, kind="stable")[-2:])
    index = np.moveaxis(index, sides, (0, 1))
    for rows in np.array_split(np.arange(index.shape[0]), _PATCHES):
      for columns in np.array_split(np.arange(index.shape[1]), _PATCHES):
        if len(rows) and len(columns):
          part = index[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
          name = f"{rows[0]}:{rows[-1] + 1}, {columns[0]}:{columns[-1] + 1}"
          yield f"[{name}]", part.ravel()
