"""Frame record stream: writes stacked-frame items, sending each frame once."""

import typing

import numpy as np

from slipway.replay.items import frames as frames_lib


class FrameRecordStream:
  """Stream of items that share frame records, by `reverb.TrajectoryWriter`.

  Each item adds one frame record to the stream: the item's newest frame and its
  packed record. For its older frames, the item refers to frame records that
  were sent before. Older frames that were not sent yet, as at the start of an
  episode, are sent first, with zeros in place of the packed record.
  """

  def __init__(self, writer: typing.Any, kept_frame_records: int):
    """Configures the writer to send each frame record as one chunk.

    Args:
      writer: a `reverb.TrajectoryWriter` that keeps at least
        `kept_frame_records` references.
      kept_frame_records: number of newest frame records that items can refer
        to.
    """
    # A chunk per frame: longer chunks would be sent later, and decompressed as
    # a whole for each of their frames.
    writer.configure(
      (), num_keep_alive_refs=kept_frame_records, max_chunk_length=1
    )
    self._writer, self._kept = writer, kept_frame_records
    self._sent = 0  # frame records
    # Position in the stream by number of the frame, in the order of sending.
    self._positions: dict[int, int] = {}

  def write(
    self,
    table: str,
    records: np.ndarray,
    priorities: np.ndarray,
    frames: frames_lib.FrameIds,
  ) -> None:
    """Appends frame records and creates items; does not block.

    Args:
      records: packed records of M items, uint8 [M, record_bytes].
      priorities: priorities of the items, float [M].
    """
    newest = frames.ring.take(frames.ids[:, -1])
    frame_records = np.concatenate([newest, records], axis=1)
    empty_record = np.zeros(records.shape[1], np.uint8)
    for frame_record, priority, ids in zip(
      frame_records, priorities.tolist(), frames.ids.tolist(), strict=True
    ):
      # The item may send all of its frame records before it is created.
      oldest = max(0, self._sent + len(ids) - self._kept)
      for id_ in ids[:-1]:
        if self._positions.get(id_, -1) < oldest:
          frame = frames.ring.take(np.array(id_))
          self._send(id_, np.concatenate([frame, empty_record]))
      positions = [self._positions[id_] for id_ in ids[:-1]]
      positions.append(self._send(ids[-1], frame_record))
      history = self._writer.history[[i - self._sent for i in positions]]
      self._writer.create_item(table, priority, history)

  def _send(self, id_: int, frame_record: np.ndarray) -> int:
    self._writer.append(frame_record)
    self._positions.pop(id_, None)  # moves it to the end of the order
    self._positions[id_] = self._sent
    if len(self._positions) > self._kept:
      del self._positions[next(iter(self._positions))]
    self._sent += 1
    return self._sent - 1
