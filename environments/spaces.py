"""Spaces: the positions of a structured observation's leaves in a flat vector.

A Dict or Tuple, possibly nested, becomes one float32 vector: its leaves in the
order of the space, one after the other, but images after all others. gymnasium
sorts the keys of a plain dict, and `gymnasium.spaces.flatten` has the same
order. A leaf is a space that is neither Dict nor Tuple.

| leaf | in the vector |
|---|---|
| Box | its numbers or pixels, in C order |
| Discrete(n, start) | one-hot, n numbers |
| MultiDiscrete | one-hot, for each component |
| MultiBinary | zeros and ones |

If the only leaf is a Box, such as an image, the observation is the leaf itself.
`split` reverses the conversion: it returns the parts of a vector by key.
"""

import hashlib
import math
import typing
from collections.abc import Iterator

import gymnasium
import numpy as np
from gymnasium import spaces

from slipway.environments import user_code

# Most numbers that the description of a space lists.
_MOST_SHOWN = 64
# The keys and indices that lead from a whole space to one of its leaves.
Path = tuple[typing.Any, ...]


class Leaf(typing.NamedTuple):
  """A leaf of a structured observation space.

  Attributes:
    path: Keys and indices that lead from the whole space to the leaf.
    space: Space of the leaf.
  """

  path: Path
  space: gymnasium.Space

  @property
  def size(self) -> int:
    """Number of elements that the leaf has in a flat observation vector."""
    if isinstance(self.space, (spaces.Discrete, spaces.MultiDiscrete)):
      return sum(component_sizes(self.space) or ())
    return math.prod(self.space.shape or ())

  @property
  def is_image(self) -> bool:
    """Whether the leaf is a Box of uint8 values with two or more axes."""
    shape = self.space.shape or ()
    is_box = isinstance(self.space, spaces.Box)
    return is_box and self.space.dtype == np.uint8 and len(shape) > 1


def leaves(space: gymnasium.Space, path: Path = ()) -> Iterator[Leaf]:
  """Yields the leaves of a space in the order of the space.

  A space that is neither Dict nor Tuple is its own single leaf.

  Args:
    path: keys and indices that lead from the whole space to `space`.
  """
  if isinstance(space, spaces.Dict):
    parts = list(space.spaces.items())
  elif isinstance(space, spaces.Tuple):
    parts = list(enumerate(space.spaces))
  else:
    yield Leaf(path, space)
    return
  for key, part in parts:
    yield from leaves(part, (*path, key))


def leaf_slices(space: gymnasium.Space) -> Iterator[tuple[Leaf, slice]]:
  """Yields each leaf of a space, with its slice of the flat observation.

  The leaves have the order of the space; those of images are at the end of the
  flat observation.
  """
  found = list(leaves(space))
  starts, start = {}, 0
  for index in sorted(range(len(found)), key=lambda i: found[i].is_image):
    starts[index] = start
    start += found[index].size
  for index, leaf in enumerate(found):
    yield leaf, slice(starts[index], starts[index] + leaf.size)


def describe_layout(
  space: gymnasium.Space, mask_size: int = 0
) -> list[dict[str, typing.Any]]:
  """Returns where each part of a flat observation is, for other programs.

  Args:
    mask_size: number of entries of the action mask, which follows; 0: none.

  Returns:
    A dict per part: its `key` as subscripts (such as "['goal'][0]", or '' for
    the whole observation), its `start` and `stop`, and its `space`. Discrete
    parts are one-hot.
  """
  layout = [
    {
      "key": subscripts(leaf.path),
      "start": columns.start,
      "stop": columns.stop,
      "space": describe(leaf.space),
    }
    for leaf, columns in leaf_slices(space)
  ]
  if mask_size:
    start = sum(leaf.size for leaf in leaves(space))
    layout.append(
      {
        "key": "action_mask",
        "start": start,
        "stop": start + mask_size,
        "space": f"{mask_size} numbers, 1 for legal actions and 0 for others",
      }
    )
  return layout


def split(space: gymnasium.Space, vectors: typing.Any) -> typing.Any:
  """Splits flat observations into the parts of a Dict or Tuple, for a torso.

      parts = spaces.split(Maze.observation_space, observation)
      x = layers.ops.concat([parts["goal"], parts["place"]])

  Args:
    vectors: flat observations [B, N] of NumPy or TensorFlow.

  Returns:
    A dict or tuple, nested as the space is, with a float32 array [B, n] for
    each leaf of n elements; `vectors` itself if the space is neither Dict nor
    Tuple.

  Raises:
    ValueError: the length of the vectors is not that of the space.
  """
  found = list(leaf_slices(space))
  size = sum(leaf.size for leaf, _ in found)
  if len(vectors.shape) != 2 or vectors.shape[1] != size:
    raise ValueError(
      f"observations are {list(vectors.shape)}, but vectors of "
      f"{one_line(space)} are [B, {size}], so there are no parts: give the "
      "space that the environment has with its wrappers"
    )
  return nest(space, iter([vectors[:, columns] for _, columns in found]))


def nest(space: gymnasium.Space, values: Iterator[typing.Any]) -> typing.Any:
  """Returns values of leaves as a dict or tuple, nested as the space is.

  Args:
    values: value of each leaf, in the order of `leaves`. Those of the space's
      leaves are taken from the iterator.
  """
  if isinstance(space, spaces.Dict):
    return {key: nest(part, values) for key, part in space.spaces.items()}
  if isinstance(space, spaces.Tuple):
    return tuple(nest(part, values) for part in space.spaces)
  return next(values)


def only_box(space: gymnasium.Space) -> spaces.Box | None:
  """Returns the Box that is the only leaf of a space, or None.

  None means that the space has several leaves, or that its leaf is discrete.
  """
  found = list(leaves(space))
  if len(found) == 1 and isinstance(found[0].space, spaces.Box):
    return found[0].space
  return None


def component_sizes(space: gymnasium.Space) -> tuple[int, ...] | None:
  """Returns the number of values of each component of a discrete space.

  Returns:
    A tuple with one number per component, in C order: one for a Discrete,
    several for a MultiDiscrete or MultiBinary. None for other spaces.
  """
  if isinstance(space, spaces.Discrete):
    return (int(space.n),)
  if isinstance(space, spaces.MultiDiscrete):
    return tuple(space.nvec.reshape(-1).tolist())
  if isinstance(space, spaces.MultiBinary):
    return (2,) * math.prod(space.shape)
  return None


def find_unsupported(space: gymnasium.Space) -> str | None:
  """Returns a description of what agents don't support in an observation space.

  Returns:
    None if agents support the space, or else words that follow 'whose
    observation space' in an error message. They begin with a verb if a leaf is
    unsupported, as in 'is Text(...)'. They begin with the space if it is
    unsupported as a whole, as in 'Dict() has no parts'.
  """
  found = list(leaves(space))
  if not found:
    return f"{one_line(space)} has no parts"
  for leaf in found:
    if not isinstance(
      leaf.space,
      (
        *(spaces.Box, spaces.Discrete),
        *(spaces.MultiDiscrete, spaces.MultiBinary),
      ),
    ):
      where = f" at observation{subscripts(leaf.path)}" if leaf.path else ""
      return f"is {one_line(leaf.space)}{where}"
  if not any(leaf.size for leaf in found):
    return f"{one_line(space)} has no numbers"
  return None


def select(observations: typing.Any, path: Path) -> typing.Any:
  """Returns the values of one leaf in a structured observation.

  Args:
    observations: an observation, or a batch in the space's structure.
    path: keys and indices that lead from the whole observation to the leaf.
  """
  for key in path:
    observations = observations[key]
  return observations


def find_overflow(space: gymnasium.Space, values: typing.Any) -> int | None:
  """Returns the first value that a space's integers can't hold, or None.

  NumPy would wrap it around: 300 becomes 44 in uint8.
  """
  dtype: typing.Any = space.dtype
  if dtype.kind not in "iu":
    return None
  array = np.asarray(values)
  if array.dtype.kind not in "iu" or np.can_cast(array.dtype, dtype, "safe"):
    return None
  limits = np.iinfo(dtype)
  outside = (array < limits.min) | (array > limits.max)
  return int(array[outside][0]) if outside.any() else None


def find_mismatch(
  space: gymnasium.Space, observation: typing.Any
) -> str | None:
  """Returns a description of an observation's first mismatch with its space.

  Returns:
    A phrase that follows 'returned' in an error message, or None if the leaves,
    their shapes and their types match the space.
  """
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
      part = f" with {where}" if leaf.path else ""
      return (
        f"an observation{part} of shape {array.shape} and type {array.dtype}, "
        f"but its observation_space is {one_line(leaf.space)}"
        f"{' there' if leaf.path else ''}"
      )
  return None


def describe(space: gymnasium.Space) -> str:
  """Returns a text that two spaces share if the same values mean the same.

  It has the keys in their order, and types, shapes, sizes and bounds.
  """
  if isinstance(space, (spaces.Dict, spaces.Tuple)):
    parts = [
      f"{subscripts(leaf.path)} {describe(leaf.space)}"
      for leaf in leaves(space)
    ]
    return f"{type(space).__name__} of {', '.join(parts)}"
  name = f"{type(space).__name__} {space.dtype} {list(space.shape or ())}"
  if isinstance(space, spaces.Box):
    low, high = (_shorten(bound) for bound in (space.low, space.high))
    return f"{name} from {low} to {high}"
  start = _shorten(np.asarray(getattr(space, "start", 0)))
  sizes = ", ".join(map(str, component_sizes(space) or ()))
  return f"{name} of {sizes} values from {start}"


def subscripts(path: Path) -> str:
  """Returns a path as Python subscripts, such as "['goal'][0]"."""
  return "".join(f"[{key!r}]" for key in path)


def one_line(space: object) -> str:
  """Returns the text of a space or spec in one line, without line breaks."""
  text = " ".join(user_code.format_object(space, str).split())
  return user_code.make_printable(text)


def _shorten(values: np.ndarray) -> str:
  """Returns the text of an array, or of its one number if all are equal."""
  if values.size and (values == values.flat[0]).all():
    return str(values.flat[0])
  if values.size > _MOST_SHOWN:
    digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()
    return f"{values.size} numbers of sha256 {digest[:16]}"
  return str(values.tolist())
