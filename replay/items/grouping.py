"""Grouping: several transitions in one item."""

import typing
from collections.abc import Mapping

import numpy as np


class Grouping:
  """Puts G transitions into an item, in the order in which they were finished.

  Reverb pays by the item, on both sides: four transitions an item are written,
  relayed, held and drawn at a quarter of the cost. They are drawn together, so
  a batch has fewer independent draws; those of one item come from different
  environments as long as a worker has G of them.
  """

  def __init__(self, size: int, row_bytes: int):
    """Starts with none.

    Args:
      size: G.
      row_bytes: of a transition.
    """
    self._size = size
    self._rows = np.empty((0, row_bytes), np.uint8)
    self._priorities = np.empty(0, np.float32)

  def add(
    self, rows: np.ndarray, priorities: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray] | None:
    """Adds transitions.

    Args:
      rows: uint8 [M, row_bytes].
      priorities: float32 [M].

    Returns:
      The items that are full, uint8 [N, G, row_bytes], and the mean priority of
      each, float32 [N]; None if there is none.
    """
    rows = np.concatenate([self._rows, rows])
    priorities = np.concatenate([self._priorities, priorities])
    items = len(rows) // self._size
    full = items * self._size
    self._rows, self._priorities = rows[full:], priorities[full:]
    if not items:
      return None
    return (
      rows[:full].reshape(items, self._size, -1),
      priorities[:full].reshape(items, self._size).mean(axis=1),
    )

  def get_state(self) -> dict[str, typing.Any]:
    """The transitions that wait, in arrays of the caller's own."""
    return {"rows": self._rows.copy(), "priorities": self._priorities.copy()}

  def set_state(self, state: Mapping[str, typing.Any]) -> None:
    """Goes on with the transitions that waited elsewhere."""
    self._rows, self._priorities = state["rows"], state["priorities"]
