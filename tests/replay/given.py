"""Tables of simple items, for tests."""

import typing

from slipway.replay.tables import table_spec


class RecordSchema(typing.NamedTuple):
  """Items that are records of so many bytes."""

  item_shape: tuple[int, ...]
  transitions_per_item: int = 1

  def kept_frame_records(self, num_envs: int) -> int:
    del num_envs
    return 0


def make_table_spec(
  schema: typing.Any = 8, prioritized: bool = True, **fields: typing.Any
) -> table_spec.TableSpec:
  """A table spec, by default of records of 8 bytes with priorities.

  Args:
    schema: of an item, or its bytes.
    prioritized: whether items are sampled by priority.
    **fields: of the spec that differ from these.
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
