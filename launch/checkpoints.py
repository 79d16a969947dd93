"""The checkpoints of a run's trainer, wherever it runs."""

import ml_collections
import tensorflow as tf

from agents import core
from launch import run_folder


def make_manager(
  config: ml_collections.ConfigDict,
  folder: run_folder.RunFolder,
  learner: core.Learner,
) -> tf.train.CheckpointManager:
  """Keeps the learner's newest states in the run's folder.

  Args:
    config: the whole config.
    folder: of the run.
    learner: what is saved.
  """
  return tf.train.CheckpointManager(
    tf.train.Checkpoint(**learner.checkpointed),
    str(folder.checkpoints),
    max_to_keep=config.checkpoint.keep,
    checkpoint_name="trainer",
  )
