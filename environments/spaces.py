"""Spaces: observations of several parts, as one vector.

A Dict or Tuple, also of Dicts and Tuples, becomes one float32 vector: its
leaves in the order of the space, one after the other. gymnasium sorts the keys
of a plain dict, and `gymnasium.spaces.flatten` has the same order.

| leaf | in the vector |
|---|---|
| Box, without images | its numbers, in C order |
| Discrete(n, start) | one-hot, n numbers |
| MultiDiscrete | one-hot, for each component |
| MultiBinary | zeros and ones |

A Dict or Tuple whose only leaf is a Box, an image say, becomes this leaf.
`split` finds the parts of a vector again, by key.
"""

import math
import typing
from collections.abc import Iterator

import gymnasium
import numpy as np
from gymnasium import spaces

from slipway.environments import user_code

Path = tuple[typing.Any, ...]


class Leaf(typing.NamedTuple):
  """A part of an observation that has no parts.

  Attributes:
    path: The keys and indices that lead to it.
    space: Its own.
  """

  path: Path
  space: gymnasium.Space

  @property
  def size(self) -> int:
    """Numbers that it takes in the vector."""
    if isinstance(self.space, (spaces.Discrete, spaces.MultiDiscrete)):
      return sum(component_sizes(self.space) or ())
    return math.prod(self.space.shape or ())


def leaves(space: gymnasium.Space, path: Path = ()) -> Iterator[Leaf]:
  """Lists the leaves of a space, in its order; of one without parts, itself."""
  if isinstance(space, spaces.Dict):
    parts = list(space.spaces.items())
  elif isinstance(space, spaces.Tuple):
    parts = list(enumerate(space.spaces))
  else:
    yield Leaf(path, space)
    return
  for key, part in parts:
    yield from leaves(part, (*path, key))


def place(space: gymnasium.Space) -> Iterator[tuple[Leaf, slice]]:
  """Lists the leaves of a space, each with its place in the vector."""
  start = 0
  for leaf in leaves(space):
    yield leaf, slice(start, start + leaf.size)
    start += leaf.size


def split(space: gymnasium.Space, vectors: typing.Any) -> typing.Any:
  """Splits vectors into the parts of a Dict or Tuple, for a torso.

      parts = spaces.split(Maze.observation_space, observation)
      x = layers.ops.concat([parts["goal"], parts["place"]])

  Args:
    space: the observation space of the environment, with its wrappers.
    vectors: [B, N], of NumPy, TensorFlow or an ONNX graph.

  Returns:
    A dict or tuple, nested as the space is, of float32 [B, n] for each leaf,
    by the table above; `vectors` where the space has no parts.

  Raises:
    ValueError: one line: the vectors are not those of the space.
  """
  found = list(place(space))
  size = found[-1][1].stop if found else 0
  if len(vectors.shape) != 2 or vectors.shape[1] != size:
    raise ValueError(
      f"observations are {list(vectors.shape)}, but vectors of "
      f"{one_line(space)} are [B, {size}], so there are no parts: give the "
      "space that the environment has with its wrappers"
    )
  parts = iter([vectors[:, where] for _, where in found])

  def nest(inner: gymnasium.Space) -> typing.Any:
    if isinstance(inner, spaces.Dict):
      return {key: nest(part) for key, part in inner.spaces.items()}
    if isinstance(inner, spaces.Tuple):
      return tuple(nest(part) for part in inner.spaces)
    return next(parts)

  return nest(space)


def only_box(space: gymnasium.Space) -> spaces.Box | None:
  """Returns the Box that is all of an observation; None: there is more."""
  found = list(leaves(space))
  if len(found) == 1 and isinstance(found[0].space, spaces.Box):
    return found[0].space
  return None


def component_sizes(space: gymnasium.Space) -> tuple[int, ...] | None:
  """Returns the number of values of each component, in C order.

  Returns:
    One number for a Discrete; None: the space is not discrete.
  """
  if isinstance(space, spaces.Discrete):
    return (int(space.n),)
  if isinstance(space, spaces.MultiDiscrete):
    return tuple(space.nvec.reshape(-1).tolist())
  if isinstance(space, spaces.MultiBinary):
    return (2,) * math.prod(space.shape)
  return None


def find_unsupported(space: gymnasium.Space) -> str | None:
  """Describes the part of an observation space that can't be served, if any."""
  found = list(leaves(space))
  if not found:
    return f"{one_line(space)} has no parts"
  for leaf in found:
    if isinstance(leaf.space, spaces.Box):
      if len(found) > 1 and _is_image(leaf.space):
        return (
          f"has the image {one_line(leaf.space)} at "
          f"observation{subscripts(leaf.path)} next to other parts"
        )
    elif not isinstance(
      leaf.space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    ):
      where = f" at observation{subscripts(leaf.path)}" if leaf.path else ""
      return f"is {one_line(leaf.space)}{where}"
  if not any(leaf.size for leaf in found):
    return f"{one_line(space)} has no numbers"
  return None


def select(observations: typing.Any, path: Path) -> typing.Any:
  """Returns the part of observations at a leaf's path."""
  for key in path:
    observations = observations[key]
  return observations


def find_mismatch(
  space: gymnasium.Space, observation: typing.Any
) -> str | None:
  """Describes how an observation differs from its space, if it does."""
  for leaf in leaves(space):
    where = f"observation{subscripts(leaf.path)}"
    try:
      value = select(observation, leaf.path)
    except (KeyError, IndexError, TypeError) as error:
      return (
        f"an observation without {where} ({user_code.describe(error)}), but "
        f"its observation_space has {one_line(leaf.space)} there"
      )
    try:
      array = np.asarray(value)
    except ValueError:  # lists of different lengths
      array = np.asarray(value, dtype=object)
    if array.shape != leaf.space.shape or not np.can_cast(
      array.dtype, leaf.space.dtype, "same_kind"
    ):
      of = f" with {where}" if leaf.path else ""
      return (
        f"an observation{of} of shape {array.shape} and type {array.dtype}, "
        f"but its observation_space is {one_line(leaf.space)}"
        f"{' there' if leaf.path else ''}"
      )
  return None


def subscripts(path: Path) -> str:
  """Writes a path as Python does: "['goal'][0]"."""
  return "".join(f"[{key!r}]" for key in path)


def one_line(space: gymnasium.Space) -> str:
  """Writes a space, which gymnasium prints on several lines, on one."""
  return " ".join(user_code.show(space, str).split())


def _is_image(space: spaces.Box) -> bool:
  return space.dtype == np.uint8 and len(space.shape) > 1
