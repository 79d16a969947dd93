"""Grouping: joins several transitions into one item, to save cost per item."""

import typing
from collections.abc import Mapping

import numpy as np


class Grouping:
  """Buffer that joins G transitions into one item, in the order of arrival.

  Reverb's cost is per item, for inserts and for samples. With four transitions
  per item, each transition costs a quarter. The transitions of an item are
  sampled together, so a batch has fewer independent samples. They come from
  different environments if a worker has at least G environments.
  """

  def __init__(self, size: int, record_bytes: int):
    """Makes a grouping without transitions.

    Args:
      record_bytes: bytes of a packed transition.
    """
    self._size = size
    self._records = np.empty((0, record_bytes), np.uint8)
    self._priorities = np.empty(0, np.float32)

  def add(
    self, records: np.ndarray, priorities: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray] | None:
    """Adds M transitions, and returns the items that are complete now.

    Args:
      records: packed transitions, uint8 [M, record_bytes].
      priorities: priorities of the transitions, float32 [M].

    Returns:
      N items, uint8 [N, G, record_bytes], and the mean priority of each item's
      transitions, float32 [N]; None: no item is complete.
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
    """Returns a copy of the transitions that are not in a complete item yet."""
    return {
      "records": self._records.copy(),
      "priorities": self._priorities.copy(),
    }

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Restores a result of `get_state` of a grouping with equal arguments."""
    self._records, self._priorities = state["records"], state["priorities"]
