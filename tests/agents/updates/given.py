"""Learner that records its items, and sequences to learn from."""

import typing

import numpy as np
import tensorflow as tf
from acme import specs

from slipway.agents import core
from slipway.replay.items import sequences, transitions
from tests.environments import given as environment
from tests.replay import given

STEPS = 4  # steps per sequence
ACTIONS = specs.BoundedArray((3,), np.float32, -1, 1)
SCHEMA = sequences.SequenceSchema(
  environment.spec_of((2,), actions=ACTIONS), STEPS
)


class RecordingLearner:
  """Learner that records the number of each item that it learns from.

  The new priority of an item is its number plus 1000.

  Attributes:
    steps: number of updates.
    metrics: further metrics of each update, tensors by name.
  """

  def __init__(self, prioritized: bool = False):
    self.steps = tf.Variable(tf.zeros((), tf.int64))
    self.metrics: dict[str, tf.Tensor] = {}
    self._prioritized = prioritized
    self._recorded = tf.Variable(
      tf.zeros([0], tf.int64), shape=[None], trainable=False
    )

  @property
  def learned(self) -> list[int]:
    """Numbers of all items that were learned from, in order."""
    return self._recorded.numpy().tolist()

  def update(self, batch: typing.Any) -> core.Update:
    numbers = batch.data.reward[:, 0]
    self._recorded.assign(
      tf.concat([self._recorded, tf.cast(numbers, tf.int64)], axis=0)
    )
    self.steps.assign_add(1)
    return core.Update(
      {
        "mean": tf.reduce_mean(numbers),
        "step": tf.cast(self.steps, tf.float32),
        **self.metrics,
      },
      numbers + 1_000.0 if self._prioritized else None,
    )


def make_sequences(first: int, count: int) -> np.ndarray:
  """Returns items [count, item bytes] with rewards `first`, `first` + 1, ..."""
  numbers = np.arange(first, first + count)
  zeros = np.zeros((count, STEPS), np.float32)
  return SCHEMA.record.pack(
    {
      "observation": np.zeros((count, STEPS + 1, 2), np.float32),
      "action": np.zeros((count, STEPS, 3), np.float32),
      "reward": zeros + numbers[:, None],
      "discount": zeros,
      "ended": zeros.astype(bool),
      "first": np.zeros((count, STEPS + 1), bool),
      "action_before": np.zeros((count, 3), np.float32),
      "reward_before": zeros[:, 0],
      transitions.VERSION: numbers[:, None] + np.arange(STEPS),
    }
  )


def make_spec(**fields: typing.Any):
  """Returns the spec of a table of such items; by default a queue."""
  return given.make_table_spec(
    SCHEMA,
    **{
      "prioritized": False,
      "is_queue": True,
      "capacity": 100,
      "batch_size": 8,
      "min_size": 1,
      **fields,
    },
  )
