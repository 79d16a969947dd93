"""Shape: sizes that a config determines, for the benchmark `scale`."""

import math
import typing
from collections.abc import Mapping

import ml_collections
import numpy as np

from benchmarks import filling

_DISTINCT = 64  # items that are written again and again
_DISTINCT_BYTES = 64_000_000  # of all of them, at most
_CAPACITY = 20_000  # items
_TABLE_BYTES = 200_000_000  # of the table, at most


class Shape(typing.NamedTuple):
  """Sizes of items, batches and variables that a config determines.

  Attributes:
    sent_bytes: bytes that each item adds to its stream.
    item_bytes: bytes of a sampled item.
    variables_bytes: bytes of a version of the variables.
    batch_size: items per batch.
    steps_per_item: environment steps per item.
  """

  sent_bytes: int
  item_bytes: int
  variables_bytes: int
  batch_size: int
  steps_per_item: int


class Records(typing.NamedTuple):
  """The records from which writers form items.

  Attributes:
    rows: uint8 [M, ...], records that are appended to a stream in turn.
    window: number of newest records that form an item.
  """

  rows: np.ndarray
  window: int


def describe(
  config: ml_collections.ConfigDict,
) -> tuple[Shape, Records, ml_collections.ConfigDict]:
  """Returns the sizes, records and config for the measurements of a config.

  Returns:
    The sizes that the config determines, the records that writers write, and a
    copy of the config whose table is small and never blocks.
  """
  records, table = make_records(config), filling.make_table_spec(config)
  arrays = make_variables(config).values()
  shape = Shape(
    records.rows[0].nbytes,
    math.prod(table.schema.item_shape),
    sum(array.nbytes for array in arrays),
    table.batch_size,
    table.steps_per_item,
  )
  return shape, records, _unlimited(config)


def make_records(config: ml_collections.ConfigDict) -> Records:
  """Makes random records for the items of a config."""
  from slipway.replay.items import transitions

  schema: typing.Any = filling.make_table_spec(config).schema
  random = np.random.default_rng(0)
  item_bytes = math.prod(schema.item_shape)
  count = min(_DISTINCT, max(4, _DISTINCT_BYTES // item_bytes))
  each, framed = schema.transitions_per_item, False
  if isinstance(schema, transitions.TransitionSchema):
    framed = schema.stacked_frames > 0
  rows = schema.record.pack(
    {
      name: _noise(random, dtype, (count * each, *shape))
      for name, (dtype, shape) in schema.record.fields.items()
    }
  )
  if not framed:
    return Records(rows.reshape(count, *schema.item_shape), 1)
  frames = random.integers(0, 256, (count, schema.frame_bytes), np.uint8)
  return Records(np.concatenate([frames, rows], axis=1), schema.frames_per_item)


def make_variables(
  config: ml_collections.ConfigDict,
) -> Mapping[str, np.ndarray]:
  """Returns the initial variables of a config's learner, by name."""
  from slipway.agents import registry
  from slipway.environments import factory

  spec = factory.make_spec(config.environment)
  return (
    registry.make_builder(config.agent)
    .make_learner(config, spec)
    .get_variables()
  )


def _unlimited(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """Returns a copy of a config whose table is small and never blocks."""
  config = config.copy_and_resolve_references()
  table = filling.make_table_spec(config)
  item_bytes = math.prod(table.schema.item_shape)
  held = max(4 * table.batch_size, min(_CAPACITY, _TABLE_BYTES // item_bytes))
  config.replay.capacity = held * table.steps_per_item
  config.replay.min_size = 1
  config.replay.samples_per_insert = 0.0
  return config


def _noise(
  random: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]
) -> np.ndarray:
  """Makes random values of a field; integers that may be flags are 0 or 1."""
  if dtype.kind == "f":
    return random.standard_normal(shape).astype(dtype)
  if dtype == np.uint8 and len(shape) > 1:
    return random.integers(0, 256, shape, np.uint8)
  return random.integers(0, 2, shape).astype(dtype)
