"""Pictures of observations, with all frames of a stack side by side."""

import pathlib

import numpy as np

_MAX_STEPS = 8  # observations of a sequence in its picture
_MIN_SIDE = 8  # height and width of an image; smaller arrays are none
_MIN_PIXELS = 200  # height of the picture of one observation


def is_image(values: np.ndarray) -> bool:
  """Returns whether an array is an image, or a sequence of images.

  It is [S, height, width], [height, width, C], or has a leading dimension.
  """
  return (
    values.ndim in (3, 4)
    and values.dtype.kind in "uif"
    and sorted(values.shape[-3:])[1] >= _MIN_SIDE
  )


def write(path: pathlib.Path, values: np.ndarray) -> None:
  """Writes a PNG file with a row per observation, oldest frames on the left.

  Of a longer sequence, evenly spaced observations are shown.

  Args:
    values: an array that `is_image` accepts.

  Raises:
    OSError: the file can't be written.
  """
  from matplotlib import image  # takes half a second

  rows = values.reshape(-1, *values.shape[-3:])
  if len(rows) > _MAX_STEPS:
    steps = np.linspace(0, len(rows) - 1, _MAX_STEPS)
    rows = rows[steps.round().astype(int)]
  if rows.shape[3] < rows.shape[1]:  # channels are last
    rows = np.moveaxis(rows, 3, 1)
  scale = max(1, _MIN_PIXELS // rows.shape[2])
  # Lines of the mean value separate the tiles.
  tiles = np.pad(
    rows.astype(np.float64).repeat(scale, 2).repeat(scale, 3),
    ((0, 0), (0, 0), (1, 1), (1, 1)),
    constant_values=rows.mean(),
  )
  picture = np.concatenate([np.concatenate([*x], axis=1) for x in tiles])
  high = 255 if values.dtype == np.uint8 and values.max() > 1 else None
  image.imsave(path, picture, cmap="gray", vmin=high and 0, vmax=high)
