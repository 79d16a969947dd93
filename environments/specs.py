"""Specs: what an environment shows, takes and pays, in Acme's terms.

| gymnasium space | spec | what crosses `VectorEnvironment` |
|---|---|---|
| Box observation, uint8 | BoundedArray uint8 | as it is |
| Box observation, other | BoundedArray, Array if unbounded, float32 | cast |
| Discrete(n, start) observation | BoundedArray float32 [n] | one-hot |
| Discrete(n, start) action | DiscreteArray int32 of n | 0 to n - 1 |
| Box action of bounded floats | BoundedArray float32, -1 to 1 | rescaled |

So an algorithm for continuous actions acts in [-1, 1], whatever the
environment's bounds are.

Integers of 2^24 and above lose their last digits in float32.
"""

import os

import gymnasium
import numpy as np
from gymnasium import spaces

# Acme imports Launchpad, whose library opens with a line about oneDNN.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from acme import specs

Array = specs.Array
DiscreteArray = specs.DiscreteArray
EnvironmentSpec = specs.EnvironmentSpec


def make_spec(
  name: str,
  observation_space: gymnasium.Space,
  action_space: gymnasium.Space,
) -> EnvironmentSpec:
  """Describes one environment, without the batch dimension.

  Args:
    name: The gymnasium id, for the error message.
    observation_space: Discrete or Box.
    action_space: Discrete, or a Box of bounded floats.

  Returns:
    Observations and actions by the table above; rewards float32 scalars;
    discounts float32 scalars in [0, 1].

  Raises:
    ValueError: A space is of another kind.
  """
  return EnvironmentSpec(
    observations=_observation_spec(name, observation_space),
    actions=_action_spec(name, action_space),
    rewards=specs.Array((), np.float32, "reward"),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, "discount"),
  )


def _observation_spec(name: str, space: gymnasium.Space) -> specs.Array:
  if isinstance(space, spaces.Discrete):
    return specs.BoundedArray(
      (int(space.n),), np.float32, 0.0, 1.0, "observation"
    )
  if not isinstance(space, spaces.Box):
    raise ValueError(
      f"config.environment.name is {name!r}, whose observation space "
      f"{_one_line(space)} no network here can read: supported are Discrete "
      "and Box; choose another environment or register it with a flattening "
      "wrapper"
    )
  if space.dtype == np.uint8:
    return _bounded(space, np.uint8, "observation")
  if not space.is_bounded("both"):
    return specs.Array(space.shape, np.float32, "observation")
  return _bounded(space, np.float32, "observation")


def _action_spec(name: str, space: gymnasium.Space) -> specs.BoundedArray:
  if isinstance(space, spaces.Discrete):
    return specs.DiscreteArray(int(space.n), np.int32, "action")
  if (
    isinstance(space, spaces.Box)
    and np.issubdtype(space.dtype, np.floating)
    and space.is_bounded("both")
  ):
    return specs.BoundedArray(space.shape, np.float32, -1.0, 1.0, "action")
  raise ValueError(
    f"config.environment.name is {name!r}, whose action space "
    f"{_one_line(space)} no agent here can act in: supported are Discrete and "
    "Box of bounded floats, to whose bounds actions are rescaled; choose "
    "another environment or register it with an action wrapper"
  )


def _bounded(space: spaces.Box, dtype: type, name: str) -> specs.BoundedArray:
  # The largest float64 becomes infinity, which is what such a bound means.
  with np.errstate(over="ignore"):
    bounds = [bound.astype(dtype) for bound in (space.low, space.high)]
  # One number where all are equal: a spec of images is pickled and printed.
  low, high = (
    bound.flat[0] if np.all(bound == bound.flat[0]) else bound
    for bound in bounds
  )
  return specs.BoundedArray(space.shape, dtype, low, high, name)


def _one_line(space: gymnasium.Space) -> str:
  return " ".join(str(space).split())
