"""Specs of tables with simple items, for tests."""

import typing

import numpy as np

from slipway.replay.tables import table_spec


class RecordSchema(typing.NamedTuple):
  """Schema of items that are records of a given number of bytes."""

  item_shape: tuple[int, ...]
  transitions_per_item: int = 1

  def kept_frame_records(self, num_envs: int) -> int:
    del num_envs
    return 0


def make_table_spec(
  schema: typing.Any = 8, prioritized: bool = True, **fields: typing.Any
) -> table_spec.TableSpec:
  """Makes a table spec; by default a prioritized table of 8-byte records.

  Args:
    schema: schema of an item, or the number of bytes of an item.
    prioritized: whether items are sampled by priority.
    **fields: fields of the spec that replace the defaults below.
  """
  if isinstance(schema, int):
    schema = RecordSchema((schema,))
  return table_spec.TableSpec(
    **{
      "schema": schema,
      "capacity": 50_000,
      "batch_size": 64,
      "steps_per_item": 1,
      "min_size": 1_000,
      "samples_per_insert": 8.0,
      "priority_exponent": 0.6 if prioritized else None,
      **fields,
    }
  )


def make_records(start, count):
  """Returns records of 8 bytes that hold their own key."""
  keys = np.arange(start, start + count, dtype=np.uint64)
  return keys.view(np.uint8).reshape(count, 8)
