"""Unpacking of sampled records in TensorFlow, for the item schemas.

Only the learner's process imports this module, where TensorFlow is loaded.
"""

import math
import typing

import tensorflow as tf

from slipway.replay.items import frames, packing


def unpack_records(
  record: packing.Packing, records: tf.Tensor
) -> dict[str, tf.Tensor]:
  """Returns the fields [B, ...] of uint8 [B, record_bytes] by name."""
  fields, start = {}, 0
  for name, (dtype, shape) in record.fields.items():
    end = start + dtype.itemsize * math.prod(shape)
    column = records[:, start:end]
    start = end
    if dtype.itemsize == 1:
      column = tf.reshape(column, (-1, *shape))
      fields[name] = tf.cast(column, tf.as_dtype(dtype))
    else:
      column = tf.reshape(column, (-1, *shape, dtype.itemsize))
      fields[name] = tf.bitcast(column, tf.as_dtype(dtype))
  return fields


def gather_stacks(
  frame_records: tf.Tensor, offsets: tf.Tensor, shape: tuple[int, ...]
) -> list[tf.Tensor]:
  """Returns the observations o_tm1 and o_t of B items, uint8 [B, S, ...].

  Args:
    frame_records: uint8 [B, W, bytes of a frame record], with W per item.
    offsets: number of frames from o_tm1 to o_t, [B].
    shape: shape of an observation, [S, ...].
  """
  size, record_bytes = frame_records.shape[1:]
  offsets = tf.cast(offsets, tf.int32)
  frame_bytes = frames.padded_frame_bytes(shape)
  records = tf.reshape(frame_records, (-1, record_bytes))
  frame_words = _undo_xor(records[:, :frame_bytes], frame_bytes)
  newest = size * tf.range(tf.shape(offsets)[0]) + size - 1  # [B]
  stacks = []
  for last in (newest - offsets, newest):
    index = last[:, None] + tf.range(1 - shape[0], 1)  # [B, S]
    taken = _gather_frames(frame_words, index, shape)
    stacks.append(tf.reshape(taken, (-1, *shape)))
  return stacks


def gather_windows(
  records: tf.Tensor, frame_indices: tf.Tensor, shape: tuple[int, ...]
) -> tf.Tensor:
  """Returns the observations of B sequences, uint8 [B, T + 1, S, ...].

  Args:
    records: uint8 [B, record_bytes], which begin with frames.
    frame_indices: index in the record of each observation's S frames, int32
      [B, T + 1, S].
    shape: shape of an observation, [S, ...].
  """
  # A record is viewed as rows of a frame's size. The rows after its frames hold
  # other fields, and no index refers to them.
  size = frames.padded_frame_bytes(shape)
  frame_words = _undo_xor(tf.reshape(records, (-1, size)), size)
  record_bytes: typing.Any = records.shape[1]
  rows = record_bytes // size
  start = rows * tf.range(tf.shape(frame_indices)[0])  # [B]
  taken = _gather_frames(
    frame_words, start[:, None, None] + frame_indices, shape
  )
  return tf.reshape(taken, (-1, frame_indices.shape[1], *shape))


def _undo_xor(frames_as_bytes: tf.Tensor, frame_bytes: int) -> tf.Tensor:
  """Returns M frames as words of 8 bytes, int64 [M, frame_bytes / 8]."""
  # With two dimensions and words of 8 bytes: more dimensions, or single bytes,
  # cost three times as much.
  frame_words = tf.bitcast(
    tf.reshape(frames_as_bytes, (-1, frame_bytes // 8, 8)), tf.int64
  )
  return tf.bitwise.bitwise_xor(frame_words, tf.constant(frames.XOR_PATTERN))


def _gather_frames(
  frame_words: tf.Tensor, index: tf.Tensor, shape: tuple[int, ...]
) -> tf.Tensor:
  """Gathers frames by their indices, and removes the frames' padding."""
  taken = tf.bitcast(tf.gather(frame_words, tf.reshape(index, [-1])), tf.uint8)
  taken = tf.reshape(taken, (-1, frames.padded_frame_bytes(shape)))
  return taken[:, : math.prod(shape[1:])]
