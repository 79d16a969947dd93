"""Recorder: writes the complete episodes of environments as Minari datasets.

A recorder appends parts to its folder. Each part is a dataset of its own, which
`minari.MinariDataset("FOLDER/PART/data")` opens; `recordings.read` takes all
parts of a folder together.

    FOLDER/worker-0-000000-v0/data/main_data.hdf5
    FOLDER/worker-0-000000-v0/data/metadata.json
    FOLDER/worker-0-000001-v0/...

A part is made in memory, written under a hidden name by a thread, and renamed.
So all parts are whole, even if the process is killed, and a slow disk does not
block the environments. HDF5 files that grow in place can't guarantee this: a
kill during a write makes all of their episodes unreadable.

Parts contain the environment's own observations and actions, which `conversion`
converts. Structured observations and images are written as vectors
(`conversion.make_recorded_space`); action masks are `infos["action_mask"]`, one
per observation.
https://minari.farama.org/content/dataset_standards
"""

import dataclasses
import math
import os
import pathlib
import re
import shutil
import tempfile
import threading
import time
import uuid

import minari
import ml_collections
import numpy as np
from absl import logging
from minari.dataset import minari_storage

from slipway.environments import (
  arrays,
  conversion,
  episode_file,
  factory,
  masks,
  vector,
)

# Subfolder of a dataset that holds Minari's files, and the file with the
# episodes.
DATA, _EPISODES = "data", "main_data.hdf5"
# A part is written at this size in bytes or age in seconds: a kill loses only
# what is newer.
_PART_BYTES, _PART_S = 1 << 25, 60.0
# Most bytes of episodes that are kept while the disk rejects them.
_MAX_BYTES = 1 << 29
_EPISODE_BYTES = 1_500  # of an episode in a file, besides its values
_FIRST_ROWS = 1_024  # steps for which there is room at first


def check_folder(given: str, folder: str | os.PathLike[str]) -> None:
  """Creates the folder of a recorder, and checks that it can be written.

  Args:
    given: The user's argument and its value, for the error message.

  Raises:
    ValueError: It can't be written.
  """
  path = pathlib.Path(os.path.expanduser(folder))
  try:
    path.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=path).close()
  except OSError as error:
    raise ValueError(
      f"{given} can't be written ({error.strerror}), so no episodes would be "
      "recorded: give another folder"
    ) from error


def check_new_folder(given: str, folder: str | os.PathLike[str]) -> None:
  """As `check_folder`, for a folder that must be new or empty."""
  path = pathlib.Path(os.path.expanduser(folder))
  if path.exists() and (not path.is_dir() or any(path.iterdir())):
    raise ValueError(
      f"{given} already has files, so no episodes are recorded there: give a "
      "new folder, or remove this one"
    )
  check_folder(given, folder)


class Recorder:
  """Writes the complete episodes of a vector environment.

  If the disk is full or fails, a warning is logged, and the parts stay in
  memory, up to 512 MiB, until a later one can be written.

  Attributes:
    episodes: number of episodes so far, written or in memory.
    is_failing: whether the disk has rejected the newest part.

  >>> with recorder.Recorder(folder, "expert", config, environment) as recorded:
  ...   recorded.add(None, environment.reset())
  ...   recorded.add(actions, environment.step(actions))
  """

  def __init__(
    self,
    folder: str | os.PathLike[str],
    name: str,
    config: ml_collections.ConfigDict,
    environment: vector.VectorEnvironment,
  ):
    """Makes the recorder; the folder is created with the first part.

    Args:
      folder: Folder of the parts. Others may write to it, too.
      name: Beginning of the parts' names.
      config: The `environment` section of a config.
    """
    self._folder = pathlib.Path(os.path.expanduser(folder)).absolute()
    self._name, self._number = re.sub(r"[^-\w]", "_", name), 0
    self._spec = environment.spec.observations
    self._observation_space = conversion.make_recorded_space(
      environment.observation_space, arrays.remove_mask(self._spec)
    )
    self._action_space = environment.action_space
    self._gymnasium_spec = factory.make_gymnasium_spec(config)
    self._convert_actions = conversion.make_action_converter_to_space(
      self._action_space
    )
    # Observations before the newest steps, actions and rewards, [rows, B, ...].
    self._columns: list[np.ndarray] = []
    self._rows = 0
    self._before: np.ndarray | None = None  # the newest observations
    # Row of the first step of each environment's episode; -1 if it began before
    # the first step that was added.
    self._starts = np.full(environment.num_envs, -1)
    self._part = _Part()
    # Finished parts, which the thread takes from the front.
    self._pending: list[_Part] = []
    self._thread: threading.Thread | None = None
    self._lost = 0  # episodes
    self.episodes, self.is_failing = 0, False

  def add(
    self,
    actions: np.ndarray | None,
    step: vector.StepBatch,
    recorded: np.ndarray | None = None,
  ) -> None:
    """Adds a step of every environment, and records the episodes that end.

    Args:
      actions: Actions of the step, or None if `step` is from a reset.
        # [B, ...]
      step: Step that the environments returned. Its arrays must not change
        until the next one is added.
      recorded: bool [B], whether the episode of each environment is recorded if
        it ends now; None: all are.
    """
    before, self._before = self._before, step.observation
    if actions is None:
      self._starts[:] = self._rows
      return
    if before is None:  # the steps before were not added
      before = step.observation
    row, values = self._rows, (before, actions, step.raw_reward)
    if not self._columns or row == len(self._columns[0]):
      row = self._make_room(values)
    observations, taken, rewards = self._columns
    observations[row], taken[row], rewards[row] = values
    self._rows = row + 1
    ended = step.terminated | step.truncated
    if not np.count_nonzero(ended):  # four times as fast as `any`
      return
    for env in np.flatnonzero(ended):
      if self._starts[env] >= 0 and (recorded is None or recorded[env]):
        self._add_episode(env, step)
    self._starts[ended] = row + 2  # the next row is their autoreset

  def add_episode(
    self,
    observations: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    terminated: bool,
    truncated: bool,
  ) -> None:
    """Adds an episode of T steps, in the agents' terms.

    Args:
      observations: Observations before the steps and after the last.
        # [T + 1, ...]
      actions: Actions of the steps.  # [T, ...]
      rewards: Rewards of the steps.  # [T]
      terminated: Whether the last step terminated the episode.
      truncated: Whether it truncated it.
    """
    part = self._part
    part.episodes.append(
      (observations, actions, rewards, terminated, truncated)
    )
    part.steps += len(rewards)
    part.size += observations.nbytes + actions.nbytes + rewards.nbytes
    part.size += _EPISODE_BYTES
    self.episodes += 1
    if part.size >= _PART_BYTES or time.monotonic() >= part.due_s:
      self._finish_part()
      if self._thread is None or not self._thread.is_alive():
        self._thread = threading.Thread(
          target=self._write_pending, name="recorder", daemon=True
        )
        self._thread.start()

  def close(self) -> int:
    """Writes all complete episodes; others may be added after that.

    Returns:
      The number of episodes that are lost, since the disk rejected them.
    """
    if self._thread is not None:
      self._thread.join()
    self._finish_part()
    self._write_pending()
    lost = self._lost + sum(len(part.episodes) for part in self._pending)
    if lost:
      logging.warning(
        "%d recorded episodes are lost, since %r could not be written",
        lost,
        str(self._folder),
      )
    return lost

  def __enter__(self) -> "Recorder":
    """Returns the recorder."""
    return self

  def __exit__(self, *error) -> None:
    """Closes the recorder, also after an error."""
    self.close()

  def _make_room(self, values: tuple[np.ndarray, ...]) -> int:
    """Makes room for further rows of values; returns the next row."""
    if not self._columns:
      self._columns = [
        np.empty((_FIRST_ROWS, *value.shape), value.dtype) for value in values
      ]
      return 0
    # Only rows of unfinished episodes are kept.
    begun = self._starts >= 0
    oldest = min([self._rows, *self._starts[begun]])
    self._rows -= oldest
    self._starts[begun] -= oldest
    for i, column in enumerate(self._columns):
      if self._rows > len(column) // 2:
        shape = (2 * len(column), *column.shape[1:])
        self._columns[i] = np.empty(shape, column.dtype)
      self._columns[i][: self._rows] = column[oldest:]
    return self._rows

  def _add_episode(self, env: int, step: vector.StepBatch) -> None:
    """Adds the episode of an environment, which ends with a step."""
    rows = slice(self._starts[env], self._rows)
    before, *others = (column[rows, env] for column in self._columns)
    observations = np.concatenate((before, step.observation[env : env + 1]))
    actions, rewards = (column.copy() for column in others)
    ends = bool(step.terminated[env]), bool(step.truncated[env])
    self.add_episode(observations, actions, rewards, *ends)

  def _finish_part(self) -> None:
    """Adds the part to those to write, if there is memory; begins another."""
    part, self._part = self._part, _Part()
    pending = sum(part.size for part in self._pending)
    if pending and pending + part.size > _MAX_BYTES:
      self._lost += len(part.episodes)
    elif part.episodes:
      self._pending.append(part)

  def _write_pending(self) -> None:
    """Writes finished parts until none is left or the disk rejects one."""
    while self._pending:
      try:
        self._write(self._pending[0])
      except OSError as error:
        if not self.is_failing:
          logging.warning(
            "recorded episodes can't be written to %r (%s), so they stay in "
            "memory, up to %d MiB, until they can: free some space or make it "
            "writable",
            str(self._folder),
            error.strerror,
            _MAX_BYTES >> 20,
          )
        self.is_failing = True
        return
      self.is_failing = False
      del self._pending[0]

  def _write(self, part: "_Part") -> None:
    """Writes a part to a hidden folder, and renames the folder."""
    while True:
      name = f"{self._name}-{self._number:06d}-v0"
      if not (self._folder / name).exists():
        break
      self._number += 1  # another process has written this one
    hidden = self._folder / f".{name}-{uuid.uuid4().hex}"
    data = hidden / DATA
    try:
      data.mkdir(parents=True)
      storage = minari_storage.MinariStorage.new(
        data,
        self._observation_space,
        self._action_space,
        self._gymnasium_spec,
      )
      storage.update_metadata(
        {
          "dataset_id": name,
          "minari_version": minari.__version__,
          "total_episodes": len(part.episodes),
          "total_steps": part.steps,
        }
      )
      with open(data / _EPISODES, "wb") as file:
        file.writelines(self._format(part))
      for path in data.iterdir():
        with path.open("rb+") as file:
          os.fsync(file.fileno())
      os.rename(hidden, self._folder / name)
    except OSError:
      shutil.rmtree(hidden, ignore_errors=True)
      if not (self._folder / name).exists():
        raise
      self._write(part)  # another process was faster

  def _format(self, part: "_Part") -> list[bytes | memoryview]:
    """Returns the content of a part's file, in pieces."""
    observations, actions, rewards = map(
      np.concatenate, zip(*(x[:3] for x in part.episodes), strict=True)
    )
    lengths = np.array([len(x[2]) for x in part.episodes])
    infos = {}
    if isinstance(self._spec, arrays.MaskedArray):
      observations, mask = self._spec.split(observations)
      infos[masks.KEY] = episode_file.Column(mask, lengths + 1)
    if self._convert_actions is not None:
      actions = self._convert_actions(actions)
    ends = np.zeros((2, len(rewards)), np.bool_)
    ends[:, np.cumsum(lengths) - 1] = np.transpose(
      [x[3:] for x in part.episodes]
    )
    columns = {
      "observations": episode_file.Column(
        conversion.convert_observations_to_space(
          self._observation_space, observations
        ),
        lengths + 1,
      ),
      "actions": episode_file.Column(actions, lengths),
      "rewards": episode_file.Column(rewards, lengths),
      "terminations": episode_file.Column(ends[0], lengths),
      "truncations": episode_file.Column(ends[1], lengths),
    }
    return episode_file.format_file(columns, infos)


@dataclasses.dataclass
class _Part:
  """Complete episodes, in the agents' terms.

  Attributes:
    episodes: observations, actions and rewards of each, and whether it was
      terminated and truncated.
    steps: number of steps of all episodes.
    size: bytes of the part's file, about.
    due_s: monotonic seconds at which the part should be written.
  """

  episodes: list[tuple[np.ndarray, np.ndarray, np.ndarray, bool, bool]] = (
    dataclasses.field(default_factory=list)
  )
  steps: int = 0
  size: int = 0
  due_s: float = dataclasses.field(
    default_factory=lambda: time.monotonic() + _PART_S
  )


def make_for_worker(
  config: ml_collections.ConfigDict,
  worker: int,
  environment: vector.VectorEnvironment,
) -> Recorder | None:
  """Makes the recorder of a worker, or returns None if it does not record.

  The first worker records, and the others such that their share is that of
  `config.recording`, whatever the number of workers.
  """
  path, share = config.recording.path, config.recording.share
  if not path or math.ceil((worker + 1) * share) == math.ceil(worker * share):
    return None
  return Recorder(path, f"worker-{worker}", config.environment, environment)
