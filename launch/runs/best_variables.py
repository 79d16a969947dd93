"""The best variables of a run: what `launch.evaluate` plays."""

import io
import os
import pathlib
from collections.abc import Mapping

import numpy as np

from launch.runs import outbox as outbox_lib

_VERSION = "__version__"


def save(
  path: pathlib.Path,
  version: int,
  variables: Mapping[str, np.ndarray],
  outbox: outbox_lib.Outbox,
) -> None:
  """Replaces the file at once, so that no reader meets half of it.

  Args:
    path: ends in .npz.
    version: of the variables.
    variables: arrays by name.
    outbox: which writes it.

  Raises:
    OSError: as `Outbox.replace`.
  """
  content = io.BytesIO()
  np.savez(content, **{_VERSION: np.int64(version)}, **variables)
  outbox.replace(path, content.getvalue())


def load(path: pathlib.Path) -> tuple[int, dict[str, np.ndarray]]:
  """The version and its variables, as they were saved.

  Raises:
    ValueError: there is no such file yet.
  """
  if not os.path.exists(path):
    raise ValueError(
      f"{path} does not exist: the run has not been evaluated yet, so there "
      "is nothing to play; let it run until its first evaluation"
    )
  with np.load(path, allow_pickle=False) as arrays:
    variables = {name: arrays[name] for name in arrays.files}
  return int(variables.pop(_VERSION)), variables
