"""Infos: reads numbers from the infos of environments at episodes' ends.

An environment may return more about an episode than its rewards, such as
`info["is_success"]` in its last step. Evaluations record the numbers that
`evaluation.info` names.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Values of NumPy's `dtype.kind` for bools, integers and floats.
_NUMBERS = "biuf"


class InfoReader:
  """Reads the numbers of some names in the infos of environments.

  A name that an info lacks is left out, as is a value that is no single, finite
  number.
  """

  def __init__(self, names: Sequence[str]):
    self._names = tuple(names)

  def read_one(self, info: Any) -> dict[str, float]:
    """Returns the numbers in one environment's info, by name."""
    if not isinstance(info, Mapping):
      return {}
    numbers = {name: _to_number(info.get(name)) for name in self._names}
    return {name: x for name, x in numbers.items() if x is not None}

  def read_batch(
    self, infos: Mapping[str, Any], ended: np.ndarray
  ) -> dict[str, np.ndarray]:
    """Returns the numbers in the infos of gymnasium's vector environment.

    Args:
      ended: bool [B], whether each environment's episode has ended.

    Returns:
      float64 [B] by name, with nan for an environment whose episode has not
      ended, or whose info has no such number. A name without any number is left
      out.
    """
    found = {}
    for name in self._names:
      values = np.asarray(infos.get(name))
      if values.shape != ended.shape or values.dtype.kind not in _NUMBERS:
        continue
      # gymnasium marks the environments whose infos have the name.
      known = ended & infos.get(f"_{name}", True) & np.isfinite(values)
      if known.any():
        found[name] = np.where(known, values, math.nan)
    return found


def _to_number(value: Any) -> float | None:
  """Returns a bool or number as a float, or None if it is none, or infinite."""
  if not isinstance(value, (bool, int, float, np.generic, np.ndarray)):
    return None
  array = np.asarray(value)
  if array.size != 1 or array.dtype.kind not in _NUMBERS:
    return None
  number = float(array.reshape(()))
  return number if math.isfinite(number) else None
