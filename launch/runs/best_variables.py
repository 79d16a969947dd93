"""Best variables: writes and reads best.npz, the best policy's variables."""

import io
import os
import pathlib
import zipfile
from collections.abc import Mapping

import numpy as np

from slipway.launch.runs import error_text, outbox

_VERSION = "__version__"  # name of the array with the variables' version


def save(
  path: pathlib.Path, version: int, variables: Mapping[str, np.ndarray]
) -> None:
  """Writes variables to an .npz file, which is replaced atomically.

  Args:
    path: path of the file, which ends in .npz.
    variables: the networks' weights, by name.

  Raises:
    OSError: the file can't be written; see `outbox.replace`.
  """
  outbox.replace(path, to_bytes(version, variables))


def to_bytes(version: int, variables: Mapping[str, np.ndarray]) -> bytes:
  """Returns the content of a file that `load` reads; see `save`."""
  content = io.BytesIO()
  # The version is the last array, so its absence shows that the file's list of
  # arrays is damaged.
  np.savez(content, **variables, **{_VERSION: np.int64(version)})
  return content.getvalue()


def load(path: pathlib.Path) -> tuple[int, dict[str, np.ndarray]]:
  """Reads variables from a file that `save` has written.

  Returns:
    The version of the variables, and the networks' weights by name.

  Raises:
    ValueError: the file does not exist yet, or it is damaged.
  """
  if not os.path.exists(path):
    raise ValueError(
      f"{path} does not exist: the run has not been evaluated yet, so there "
      "is nothing to play; let it run until its first evaluation, or play its "
      "newest snapshot, --which=latest"
    )
  try:
    with zipfile.ZipFile(path) as archive:
      # zipfile checks the checksum of an array only if it is read to the end.
      content = {name: archive.read(name) for name in archive.namelist()}
    variables = {
      name.removesuffix(".npy"): np.lib.format.read_array(
        io.BytesIO(array), allow_pickle=False
      )
      for name, array in content.items()
    }
    return int(variables.pop(_VERSION)), variables
  # zipfile and NumPy raise errors of many types for damaged bytes.
  except Exception as error:
    text = error_text.one_line(error)
    raise ValueError(
      f"{str(path)!r} is damaged ({type(error).__name__}: {text}), so there is "
      "nothing to play: restore the file, or resume the run, whose next best "
      "evaluation writes it again"
    ) from error
