"""Grouping: several transitions in one item."""

import typing
from collections.abc import Mapping

import numpy as np


class Grouping:
  """Joins G transitions to an item, in the order in which they were completed.

  Reverb's cost is per item, for inserts and for samples: with four transitions
  per item they are written, relayed, stored and sampled at a quarter of the
  cost. They are sampled together, so a batch has fewer independent samples. The
  transitions of an item come from different environments if a worker has at
  least G of them.
  """

  def __init__(self, size: int, record_bytes: int):
    """Starts empty.

    Args:
      size: G, transitions per item.
      record_bytes: bytes of a transition.
    """
    self._size = size
    self._records = np.empty((0, record_bytes), np.uint8)
    self._priorities = np.empty(0, np.float32)

  def add(
    self, records: np.ndarray, priorities: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray] | None:
    """Adds transitions.

    Args:
      records: uint8 [M, record_bytes].
      priorities: float32 [M].

    Returns:
      Complete items, uint8 [N, G, record_bytes], and the mean priority of each,
      float32 [N]; None if there are none.
    """
    records = np.concatenate([self._records, records])
    priorities = np.concatenate([self._priorities, priorities])
    items = len(records) // self._size
    full = items * self._size
    self._records, self._priorities = records[full:], priorities[full:]
    if not items:
      return None
    return (
      records[:full].reshape(items, self._size, -1),
      priorities[:full].reshape(items, self._size).mean(axis=1),
    )

  def get_state(self) -> dict[str, typing.Any]:
    """Returns a copy of the transitions of the incomplete item."""
    return {
      "records": self._records.copy(),
      "priorities": self._priorities.copy(),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores the transitions of an incomplete item."""
    self._records, self._priorities = state["records"], state["priorities"]
