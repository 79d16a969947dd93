"""CellStream: items of cells on one Reverb stream, each frame sent once."""

import typing

import numpy as np

from slipway.replay.items import frames as frames_lib


class CellStream:
  """Writes items whose cells are shared, with a `reverb.TrajectoryWriter`.

  An item sends one new cell, its newest frame with its row, and refers to the
  others where the stream has them. What it does not have, at an episode's start
  or because the stream is a new one, is sent first, with a row of zeros.
  """

  def __init__(self, writer: typing.Any, kept_cells: int):
    """Takes over a writer's settings.

    Args:
      writer: a `reverb.TrajectoryWriter` that keeps that many references.
      kept_cells: newest cells that can be referred to.
    """
    # A frame each: longer chunks would be sent later, and be decompressed as
    # a whole for each of their frames.
    writer.configure((), num_keep_alive_refs=kept_cells, max_chunk_length=1)
    self._writer, self._kept = writer, kept_cells
    self._sent = 0  # cells
    self._cells: dict[int, int] = {}  # by frame, in the order they were sent

  def write(
    self,
    table: str,
    rows: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds,
  ) -> None:
    """Appends cells and creates items; does not wait.

    Args:
      table: its name.
      rows: uint8 [M, row_bytes].
      priorities: float [M].
      frames: [M] of the items.
    """
    newest = frames.ring.take(frames.ids[:, -1])
    cells = np.concatenate([newest, rows], axis=1)
    no_row = np.zeros(rows.shape[1], np.uint8)
    for cell, priority, ids in zip(
      cells, priorities.tolist(), frames.ids.tolist(), strict=True
    ):
      for id_ in ids[:-1]:
        if not self._has(id_):
          frame = frames.ring.take(np.array(id_))
          self._send(id_, np.concatenate([frame, no_row]))
      sent = [self._cells[id_] for id_ in ids[:-1]]
      sent.append(self._send(ids[-1], cell))
      history = self._writer.history[[i - self._sent for i in sent]]
      self._writer.create_item(table, priority, history)

  def _has(self, id_: int) -> bool:
    cell = self._cells.get(id_)
    # All cells of an item may be sent before it is created.
    return cell is not None and self._sent - cell < self._kept // 2

  def _send(self, id_: int, cell: np.ndarray) -> int:
    self._writer.append(cell)
    self._cells.pop(id_, None)  # to the end of the order
    self._cells[id_] = self._sent
    if len(self._cells) > self._kept:
      del self._cells[next(iter(self._cells))]
    self._sent += 1
    return self._sent - 1
