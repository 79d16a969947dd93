"""Checkpoints: saves and restores a learner's state in a snapshot."""

import pathlib

import tensorflow as tf

from slipway.agents import core, normalizer
from slipway.agents.networks import tf_network
from slipway.launch.runs import error_text, run_folder, snapshot_store

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


def start(
  learner: core.Learner,
  snapshot: snapshot_store.Snapshot | None,
  init_from: str,
) -> None:
  """Gives a new learner the state with which its run starts or is resumed.

  Args:
    snapshot: the run's newest snapshot, or None at its start.
    init_from: folder of the run whose weights a new run takes; '': none.

  Raises:
    ValueError: the saved state does not fit the learner, or is damaged.
  """
  if snapshot is not None:
    restore(snapshot.path, learner)
  elif init_from:
    folder = run_folder.RunFolder.open(init_from)
    found = snapshot_store.SnapshotStore(folder).newest()
    if found is None:
      raise ValueError(
        f"config.learner.init_from={init_from!r} has no complete snapshot any "
        "more, so there are no weights to begin with: restore the run's folder"
      )
    _restore_weights(found.path, learner)


def _restore_weights(folder: pathlib.Path, learner: core.Learner) -> None:
  """Restores networks and statistics of observations from a snapshot."""
  weights = {
    name: part
    for name, part in learner.checkpointed.items()
    if isinstance(part, tf_network.Network | normalizer.Normalizer)
  }
  try:
    status = tf.train.Checkpoint(**weights).read(str(folder / _NAME))
    status.expect_partial().assert_existing_objects_matched()
  except (tf.errors.OpError, ValueError, AssertionError) as error:
    text = error_text.one_line(error)
    raise ValueError(
      f"{str(folder / _NAME)!r} does not fit this config's networks ({text}): "
      "use the config of config.learner.init_from, or leave it out"
    ) from error
