"""Checkpoints: saves and restores a learner's state in a snapshot."""

import pathlib

import tensorflow as tf

from slipway.agents import core

_NAME = "trainer"


def save(folder: pathlib.Path, learner: core.Learner) -> None:
  """Saves a learner's complete state.

  Args:
    folder: folder of a snapshot.
    learner: the learner, which must not run an update at the same time.

  Raises:
    OSError: the disk rejects the file.
  """
  try:
    tf.train.Checkpoint(**learner.checkpointed).write(str(folder / _NAME))
  except tf.errors.OpError as error:
    raise OSError(f"the learner cannot be saved: {error.message}") from error


def restore(folder: pathlib.Path, learner: core.Learner) -> None:
  """Restores a learner's saved state.

  Args:
    folder: folder of a snapshot.
    learner: a learner of the same config.

  Raises:
    ValueError: the state belongs to another learner, or is damaged.
  """
  checkpoint = tf.train.Checkpoint(**learner.checkpointed)
  try:
    checkpoint.read(str(folder / _NAME)).assert_consumed()
  except (tf.errors.OpError, ValueError, AssertionError) as error:
    text = " ".join(str(error).split())
    raise ValueError(
      f"{str(folder / _NAME)!r} does not fit this config's learner ({text}), "
      "so the run can't be resumed: use the config that it was saved with, or "
      "start a new run"
    ) from error
