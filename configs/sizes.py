"""Sizes: of a table and a batch, in what the table counts."""

import typing

import ml_collections


class Sizes(typing.NamedTuple):
  """Sizes that a config gives in transitions, in items of a table.

  With `config.replay.shards` there are as many tables, and each has its part.

  Attributes:
    capacity: items that the table holds.
    min_size: items in it before the first is sampled.
    batch_size: items a batch.
    steps_per_item: environment steps that an item brings.
  """

  capacity: int
  min_size: int
  batch_size: int
  steps_per_item: int

  @classmethod
  def of(cls, config: ml_collections.ConfigDict) -> "Sizes":
    """The sizes of a config.

    Args:
      config: the whole config, with a batch of whole items.
    """
    replay, together = config.replay, config.replay.transitions_per_item
    # What a sequence has beyond its period, the one before it has, too.
    new = config.adder.get("period", together)
    return cls(
      -(-(replay.capacity // new) // replay.shards),
      -(-replay.min_size // (new * replay.shards)),
      config.learner.batch_size // together,
      new,
    )
