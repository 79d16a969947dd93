"""Checkpoints: a learner's whole state, as a part of a snapshot."""

import pathlib

import tensorflow as tf

from slipway.agents import core

_NAME = "trainer"


def save(folder: pathlib.Path, learner: core.Learner) -> None:
  """Writes all that the learner's next update depends on.

  Args:
    folder: of a snapshot.
    learner: between two updates.

  Raises:
    OSError: the disk refuses.
  """
  try:
    tf.train.Checkpoint(**learner.checkpointed).write(str(folder / _NAME))
  except tf.errors.OpError as error:
    raise OSError(f"the learner cannot be saved: {error.message}") from error


def restore(folder: pathlib.Path, learner: core.Learner) -> None:
  """Gives a learner the state that was saved.

  Args:
    folder: of a snapshot.
    learner: made from the config that the saved one was made from.

  Raises:
    ValueError: one line: it was another learner's, or is damaged.
  """
  checkpoint = tf.train.Checkpoint(**learner.checkpointed)
  try:
    checkpoint.read(str(folder / _NAME)).assert_consumed()
  except (tf.errors.OpError, ValueError, AssertionError) as error:
    said = " ".join(str(error).split())
    raise ValueError(
      f"{str(folder / _NAME)!r} does not fit this config's learner ({said}), "
      "so it can't go on: resume with the config it was saved with, or start "
      "anew"
    ) from error
