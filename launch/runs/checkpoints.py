"""Checkpoints: saves and restores a learner's state in a snapshot."""

import pathlib

import tensorflow as tf

from slipway.agents import core
from slipway.launch.runs import error_text

_NAME = "trainer"  # prefix of TensorFlow's checkpoint files in a snapshot


def save(folder: pathlib.Path, learner: core.Learner) -> None:
  """Writes a learner's complete state into a snapshot.

  Args:
    folder: the snapshot's folder.
    learner: the learner, which must not run an update at the same time.

  Raises:
    OSError: the disk rejects the file.
  """
  try:
    tf.train.Checkpoint(**learner.checkpointed).write(str(folder / _NAME))
  except tf.errors.OpError as error:
    raise OSError(f"the learner cannot be saved: {error.message}") from error


def restore(folder: pathlib.Path, learner: core.Learner) -> None:
  """Restores a learner's state, in place, from a snapshot.

  Args:
    folder: the snapshot's folder.
    learner: a new learner of the same config.

  Raises:
    ValueError: the saved state does not fit the learner, or is damaged.
  """
  checkpoint = tf.train.Checkpoint(**learner.checkpointed)
  try:
    checkpoint.read(str(folder / _NAME)).assert_consumed()
  except (tf.errors.OpError, ValueError, AssertionError) as error:
    text = error_text.one_line(error)
    raise ValueError(
      f"{str(folder / _NAME)!r} does not fit this config's learner ({text}), "
      "so the run can't be resumed: use the config and the environment that it "
      "was saved with, or start a new run"
    ) from error
