"""Specs: an environment's observations, actions and rewards in Acme's terms.

| gymnasium space | spec | conversion in `VectorEnvironment` |
|---|---|---|
| Box observation, uint8 | BoundedArray uint8 | none |
| Box observation, other | BoundedArray, Array if unbounded, float32 | cast |
| Discrete(n, start) observation | BoundedArray float32 [n] | one-hot |
| other discrete observation, Dict, Tuple | Array float32 [N] | see `spaces` |
| Dict or Tuple with images | `arrays.MixedArray` | see `spaces` |
| any of these with an action mask | `arrays.MaskedArray` | mask appended |
| Discrete(n, start) action | DiscreteArray int32 of n | counted from 0 |
| MultiDiscrete, MultiBinary action | `arrays.MultiDiscreteArray` | the same |
| Box action of bounded floats | BoundedArray float32 [N], -1 to 1 | rescaled |

The names of the specs of observations and actions describe the spaces, by
`spaces.describe`.

So continuous actions of all algorithms are in [-1, 1], whatever the
environment's bounds are. Integers of 2^24 and above lose their last digits in
float32.
"""

import math

import gymnasium
import numpy as np
from acme import specs
from gymnasium import spaces

from slipway.environments import arrays, user_code
from slipway.environments import spaces as spaces_lib

# The largest size of observations, rewards and bounds of actions. Losses and
# gradients multiply several of them, and float32 ends at 3e38.
LARGEST = 1e15

# Most values of discrete observations or actions, each of which is a number of
# a network's input or output.
_MOST_VALUES = 100_000

# Acme's classes, which other modules use through this module.
Array = specs.Array
DiscreteArray = specs.DiscreteArray
EnvironmentSpec = specs.EnvironmentSpec


def make_spec(
  name: str,
  observation_space: gymnasium.Space,
  action_space: gymnasium.Space,
  masked: bool = False,
) -> EnvironmentSpec:
  """Makes the spec of one environment, without the batch dimension.

  Args:
    observation_space: Discrete, MultiDiscrete, MultiBinary, Box, or a Dict or
      Tuple of them.
    action_space: Discrete, MultiDiscrete, MultiBinary, or a Box of bounded
      floats.

  Returns:
    Acme's spec, with observations and actions as in the module's table, float32
    scalar rewards, and float32 scalar discounts in [0, 1].

  Raises:
    ValueError: A space is of another kind, or actions that should be masked
      are not discrete.
  """
  for what, space in (
    ("observation", observation_space),
    ("action", action_space),
  ):
    sizes = [
      size
      for leaf in spaces_lib.leaves(space)
      for size in spaces_lib.component_sizes(leaf.space) or ()
    ]
    if sum(sizes) > _MOST_VALUES:
      raise ValueError(
        f"config.environment.name is {name!r}, whose {what} space has "
        f"{sum(sizes):,} discrete values, each of which would be a number of "
        f"the network: use at most {_MOST_VALUES:,}, or a Box"
      )
  observations = _observation_spec(name, observation_space)
  actions = _action_spec(name, action_space)
  if masked:
    sizes = arrays.component_sizes(actions)
    if sizes is None:
      raise ValueError(
        f"config.environment.action_mask is True, but the action space of "
        f"{name!r} is {spaces_lib.one_line(action_space)}, which is not "
        "discrete, so no action can be masked: set "
        "--config.environment.action_mask=false"
      )
    observations = arrays.MaskedArray(observations, sum(sizes))
  return EnvironmentSpec(
    observations=observations,
    actions=actions,
    rewards=specs.Array((), np.float32, "reward"),
    discounts=specs.BoundedArray((), np.float32, 0.0, 1.0, "discount"),
  )


def check_equal(
  name: str, found: EnvironmentSpec, expected: EnvironmentSpec
) -> None:
  """Checks that an environment has the spec with which its run has started.

  The names are compared, too: they describe the environment's own spaces, with
  keys, bounds, and the number from which discrete values count.

  Raises:
    user_code.UserCodeError: observations or actions differ.
  """
  if field := find_difference(found, expected):
    here, there = getattr(found, field), getattr(expected, field)
    raise user_code.UserCodeError(
      f"environment {name}: {field} of this process are {here.name}, but "
      f"those of the run are {there.name}, so nothing could be learned: give "
      "each process an environment with the same spaces"
    )


def find_difference(a: EnvironmentSpec, b: EnvironmentSpec) -> str | None:
  """Returns 'observations' or 'actions' if they differ, names included."""
  for field in ("observations", "actions"):
    x, y = getattr(a, field), getattr(b, field)
    if x != y or x.name != y.name:
      return field
  return None


def _observation_spec(name: str, space: gymnasium.Space) -> specs.Array:
  """Returns the spec of an observation space's values, without action masks."""
  unsupported = spaces_lib.find_unsupported(space)
  if unsupported:
    raise ValueError(
      f"config.environment.name is {name!r}, whose observation space "
      f"{unsupported}, which no network supports: supported are Box, "
      "Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of them; "
      "choose another environment, or convert observations by a wrapper: "
      "--config.environment.wrappers=module:Name"
    )
  box, described = spaces_lib.only_box(space), spaces_lib.describe(space)
  if box is None:
    leaves = list(spaces_lib.leaves(space))
    size = sum(leaf.size for leaf in leaves)
    images = [leaf.space.shape or () for leaf in leaves if leaf.is_image]
    if images:
      numbers = size - sum(map(math.prod, images))
      return arrays.MixedArray(numbers, images, described)
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
      return specs.Array((size,), np.float32, described)
    return specs.BoundedArray((size,), np.float32, 0.0, 1.0, described)
  if box.dtype == np.uint8:
    return _bounded(box, np.uint8, described)
  if not box.is_bounded("both"):
    return specs.Array(box.shape, np.float32, described)
  return _bounded(box, np.float32, described)


def _action_spec(name: str, space: gymnasium.Space) -> specs.BoundedArray:
  described = spaces_lib.describe(space)
  if isinstance(space, spaces.Discrete):
    return specs.DiscreteArray(int(space.n), np.int32, described)
  if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
    sizes = spaces_lib.component_sizes(space) or ()
    return arrays.MultiDiscreteArray(sizes, described)
  if (
    isinstance(space, spaces.Box)
    and np.issubdtype(space.dtype, np.floating)
    and np.abs([space.low, space.high]).max(initial=0.0) <= LARGEST
    and 0 not in space.shape
  ):
    size = math.prod(space.shape)  # as networks return them
    return specs.BoundedArray((size,), np.float32, -1.0, 1.0, described)
  raise ValueError(
    f"config.environment.name is {name!r}, whose action space "
    f"{spaces_lib.one_line(space)} no algorithm supports: supported are "
    "Discrete, MultiDiscrete, MultiBinary, and Box of floats with bounds of at "
    f"most {LARGEST:g} in size; choose another environment, or convert actions "
    "by a wrapper: --config.environment.wrappers=module:Name"
  )


def _bounded(space: spaces.Box, dtype: type, name: str) -> specs.BoundedArray:
  # The largest float64 means "unbounded", and becomes infinity in float32.
  with np.errstate(over="ignore"):
    bounds = [bound.astype(dtype) for bound in (space.low, space.high)]
  # One number if all bounds are equal, since specs are pickled and printed.
  low, high = (
    bound.flat[0] if np.all(bound == bound.flat[0]) else bound
    for bound in bounds
  )
  return specs.BoundedArray(space.shape, dtype, low, high, name)
