"""Sizes: of a table and a batch, in what the table counts."""

import typing

import ml_collections


class Sizes(typing.NamedTuple):
  """Sizes that a config gives in transitions, in items of a table.

  Attributes:
    capacity: items that the table holds.
    min_size: items in it before the first is sampled.
    batch_size: items a batch.
  """

  capacity: int
  min_size: int
  batch_size: int

  @classmethod
  def of(cls, config: ml_collections.ConfigDict) -> "Sizes":
    """The sizes of a config.

    Args:
      config: the whole config, with a batch of whole items.
    """
    replay, each = config.replay, config.replay.transitions_per_item
    return cls(
      replay.capacity // each,
      -(-replay.min_size // each),
      config.learner.batch_size // each,
    )
