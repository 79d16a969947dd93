"""Recordings: reads and writes complete episodes as Minari datasets.

A dataset's folder is organised like Minari's own datasets, with its files in
`data/`. `minari.MinariDataset("FOLDER/data")` opens the dataset; so does
`minari.load_dataset` if MINARI_DATASETS_PATH is the folder's parent. `read`
also reads datasets that Minari has written.

Files contain the environment's own observations and actions, which `conversion`
converts. Structured observations and images are written as vectors
(`conversion.make_recorded_space`); action masks are `infos["action_mask"]`, one
per observation.
https://minari.farama.org/content/dataset_standards
"""

import math
import os
import pathlib
import re
from typing import Any, NamedTuple

import gymnasium
import minari
import ml_collections
import numpy as np
from minari.data_collector import EpisodeBuffer
from minari.dataset import minari_storage

from slipway.environments import (
  arrays,
  checked,
  conversion,
  factory,
  masks,
  spaces,
  specs,
  temporary,
  vector,
)

_LARGEST_EXACT = 2**24  # the integers up to this one are exact in float32
# Subfolder of a dataset's folder that holds Minari's files.
_DATA = "data"


class Episodes(NamedTuple):
  """E complete episodes, concatenated, with N steps in total.

  Step i of all N steps belongs to an episode e, and leads from
  `observations[i + e]` to `observations[i + e + 1]`.

  Attributes:
    observations: Observations of the spec; each episode has one more than it
      has steps.  # [N + E, ...]
    actions: Actions of the spec.  # [N, ...]
    rewards: float32.  # [N]
    terminated: bool [N], whether the step terminated its episode, so that its
      return is not bootstrapped.
    truncated: bool [N], whether the episode was truncated after the step, so
      that the return is bootstrapped from the last observation.
    lengths: int64 [E], number of steps of each episode, at least 1.
  """

  observations: np.ndarray
  actions: np.ndarray
  rewards: np.ndarray
  terminated: np.ndarray
  truncated: np.ndarray
  lengths: np.ndarray


class Recorder:
  """Writes the complete episodes of a vector environment as a Minari dataset.

  `close` creates the dataset's folder, once all episodes are written. If the
  `with` block raises an error, there is no folder.

  >>> with recordings.Recorder(folder, config, environment) as recorder:
  ...   recorder.add(None, environment.reset(), recorded)
  ...   recorder.add(actions, environment.step(actions), recorded)
  """

  def __init__(
    self,
    folder: str | os.PathLike[str],
    config: ml_collections.ConfigDict,
    environment: vector.VectorEnvironment,
  ):
    """Starts a dataset in a temporary folder next to `folder`.

    Args:
      folder: Folder of the dataset, absent or empty.
      environment: Environment whose steps will be added.

    Raises:
      ValueError: The folder has files, or its parent can't be written to.
    """
    self._folder = pathlib.Path(os.path.expanduser(folder)).absolute()
    if self._folder.exists() and (
      not self._folder.is_dir() or any(self._folder.iterdir())
    ):
      raise ValueError(
        f"folder is {str(folder)!r}, which already has files, so no episodes "
        "are recorded there: give a new folder or remove this one"
      )
    self._spec = environment.spec.observations
    self._observation_space = conversion.make_recorded_space(
      environment.observation_space, arrays.remove_mask(self._spec)
    )
    self._is_inexact = (
      self._spec.dtype == np.float32
      and getattr(self._observation_space.dtype, "kind", "") in "iu"
    )
    self._action_space = environment.action_space
    self._convert_actions = conversion.make_action_converter_to_space(
      self._action_space
    )
    # The unfinished episode of each environment.
    self._observations: list[list] = [[] for _ in range(environment.num_envs)]
    self._steps: list[list] = [[] for _ in range(environment.num_envs)]
    self._temporary = temporary.make_folder_next_to(
      self._folder, "folder", "give another path, or evaluate without recording"
    )
    # A subfolder, since only its owner may read the temporary folder itself.
    self._written = pathlib.Path(self._temporary.name, "written")
    self._written.mkdir()
    self._storage = minari_storage.MinariStorage.new(
      self._written / _DATA,
      self._observation_space,
      self._action_space,
      factory.make_gymnasium_spec(config),
    )
    name = re.sub(r"[^-\w]", "_", self._folder.name)
    self._storage.update_metadata(
      {"dataset_id": f"{name}-v0", "minari_version": minari.__version__}
    )

  def add(
    self,
    actions: np.ndarray | None,
    step: vector.StepBatch,
    recorded: np.ndarray,
  ) -> None:
    """Adds a step of every environment, and writes the episodes that end.

    Args:
      actions: Actions of the step, or None if `step` is from a reset.
        # [B, ...]
      step: Step that the environments returned. Its arrays are kept, so they
        must not be changed.
      recorded: bool [B], whether each environment's steps are recorded. It may
        change only between episodes.
    """
    if actions is not None and self._convert_actions is not None:
      actions = self._convert_actions(actions)
    for env in np.flatnonzero(recorded):
      if step.first[env]:
        self._observations[env] = [step.observation[env]]
        self._steps[env] = []
        continue
      assert actions is not None
      self._observations[env].append(step.observation[env])
      self._steps[env].append(
        (
          actions[env],
          step.raw_reward[env],
          step.terminated[env],
          step.truncated[env],
        )
      )
      if step.terminated[env] or step.truncated[env]:
        self._write_episode(self._observations[env], self._steps[env])

  def close(self) -> None:
    """Moves the dataset to its folder, without unfinished episodes."""
    try:
      os.replace(self._written, self._folder)
    finally:
      self.discard()

  def discard(self) -> None:
    """Removes the temporary folder, but no dataset that `close` has moved."""
    self._temporary.cleanup()

  def __enter__(self) -> "Recorder":
    """Returns the recorder."""
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Closes the dataset, or discards it if the block raised an error."""
    if error_type is None:
      self.close()
    else:
      self.discard()

  def _write_episode(self, observations: list, steps: list) -> None:
    actions, rewards, terminated, truncated = map(
      np.stack, zip(*steps, strict=True)
    )
    # Minari stores a uint8 array of rank 2 as one JPEG image per row, but a
    # list of rows unchanged. It also accepts arrays, despite its annotations.
    # Its lists have one level only, so int64 serves actions of any rank.
    if actions.dtype == np.uint8:
      actions = actions.astype(np.int64)
    infos: dict[str, Any] = {}
    stacked = np.stack(observations)
    if isinstance(self._spec, arrays.MaskedArray):
      stacked, infos[masks.KEY] = self._spec.split(stacked)
    if self._is_inexact and np.abs(stacked).max(initial=0.0) >= _LARGEST_EXACT:
      raise ValueError(
        f"folder is {str(self._folder)!r}, but an observation has an integer "
        f"of {_LARGEST_EXACT:,} or more, whose last digits agents do not see, "
        "so no episodes are recorded: let the environment return smaller ones"
      )
    own: Any = conversion.convert_observations_to_space(
      self._observation_space, stacked
    )
    columns: dict[str, Any] = {
      "observations": list(own) if own.ndim == 2 else own,
      "actions": actions,
      "rewards": rewards,
      "terminations": terminated,
      "truncations": truncated,
      "infos": infos,
    }
    self._storage.update_episodes([EpisodeBuffer(**columns)])


def read(
  folder: str | os.PathLike[str], spec: specs.EnvironmentSpec
) -> Episodes:
  """Reads all episodes of a Minari dataset.

  An episode's last step becomes truncated if it is neither terminated nor
  truncated. The function imports neither TensorFlow nor JAX.

  Args:
    folder: Folder of a dataset that `Recorder` or Minari has written.

  Returns:
    The episodes with at least one step, in the dataset's order.

  Raises:
    ValueError: The folder does not exist, is not a dataset, has no
      episodes, or has observations or actions of another spec.
  """
  dataset, recorded = _load_dataset(pathlib.Path(os.path.expanduser(folder)))
  observations_spec = arrays.remove_mask(spec.observations)
  found = specs.make_spec(
    dataset.id, dataset.observation_space, dataset.action_space
  )
  for what, expected, actual in (
    (
      "observations",
      _describe_values(observations_spec),
      _describe_values(found.observations),
    ),
    (
      "actions",
      _describe_values(spec.actions),
      _describe_values(found.actions),
    ),
  ):
    # Structured observations and images are recorded as vectors.
    flat = f"{observations_spec.dtype} [{math.prod(observations_spec.shape)}]"
    if expected != actual and (what != "observations" or actual != flat):
      raise ValueError(
        f"folder is {str(folder)!r}, whose {what} are {actual}, but those of "
        f"the environment are {expected}, so its episodes can't be used: give "
        "episodes of the same environment, or set config.environment to theirs"
      )
  convert = conversion.make_observation_converter_to_spec(
    dataset.observation_space, observations_spec.dtype, copy=False
  )
  columns: tuple[list, ...] = ([], [], [], [], [])
  for episode in recorded:
    length = len(episode)
    if not length:
      continue
    prefix = f"folder is {str(folder)!r}, whose episode {episode.id} has"
    try:
      observations = convert(episode.observations)
      rows = len(observations)
      observations = observations.reshape(rows, *observations_spec.shape)
    except (ValueError, checked.EnvironmentFault) as error:
      raise ValueError(
        f"{prefix} observations of another shape or type ({error}), so they "
        "can't be used: record them in the environment"
      ) from error
    if len(observations) != length + 1:
      raise ValueError(
        f"{prefix} {len(observations)} observations for {length} steps, which "
        f"can't be matched: record it with {length + 1} observations"
      )
    if isinstance(spec.observations, arrays.MaskedArray):
      mask = _read_masks(folder, episode, spec.observations.mask_size)
      observations = spec.observations.join(observations, mask)
    terminated = np.array(episode.terminations, np.bool_)
    truncated = np.array(episode.truncations, np.bool_)
    truncated[-1] |= not terminated[-1]
    ended = terminated | truncated
    if ended[:-1].any():
      raise ValueError(
        f"{prefix} steps after its end at step {int(np.argmax(ended))} of "
        f"{length}, so it would be learned that an episode's last observation "
        "leads to the next one's first: record each episode on its own"
      )
    actions = np.asarray(episode.actions)
    rewards = np.asarray(episode.rewards)
    for what, values in (("actions", actions), ("rewards", rewards)):
      if len(values) != length:
        raise ValueError(
          f"{prefix} {len(values)} {what} for {length} steps, which can't be "
          f"matched: record it with {length}"
        )
    _check_numbers(prefix, "observations", observations)
    _check_numbers(prefix, "rewards", rewards)
    _check_actions(prefix, dataset.action_space, actions)
    for column, values in zip(
      columns,
      (
        observations,
        conversion.convert_actions_to_spec(dataset.action_space, actions),
        rewards.astype(np.float32),
        terminated,
        truncated,
      ),
      strict=True,
    ):
      column.append(values)
  if not columns[0]:
    raise ValueError(
      f"folder is {str(folder)!r}, a dataset without episodes, so there is "
      "nothing to learn from: record at least one"
    )
  lengths = np.array([len(rewards) for rewards in columns[2]], np.int64)
  return Episodes(*(np.concatenate(c) for c in columns), lengths=lengths)


def _check_numbers(prefix: str, what: str, values: np.ndarray) -> None:
  """Raises ValueError for numbers that no environment may return."""
  small = np.abs(values) <= specs.LARGEST
  if not small.all():
    raise ValueError(
      f"{prefix} {what} with {values[~small].flat[0]}, from which nothing can "
      f"be learned: record finite numbers of at most {specs.LARGEST:g} in size"
    )


def _check_actions(
  prefix: str, space: gymnasium.Space, actions: np.ndarray
) -> None:
  sizes = spaces.component_sizes(space)
  if sizes is None:
    _check_numbers(prefix, "actions", actions)
    return
  index = actions - np.asarray(getattr(space, "start", 0))
  index = index.reshape(len(actions), -1)
  outside = (
    (index < 0) | (index >= np.array(sizes)) | (index != np.floor(index))
  )
  if outside.any():
    step = int(np.argmax(outside.any(axis=1)))
    raise ValueError(
      f"{prefix} the action {actions[step]} at step {step}, which is not in "
      f"{spaces.one_line(space)}: record actions of the environment"
    )


def _load_dataset(
  folder: pathlib.Path,
) -> tuple[minari.MinariDataset, list[minari.EpisodeData]]:
  if not folder.is_dir():
    raise ValueError(
      f"folder is {str(folder)!r}, which does not exist, so no episodes can be "
      "read: give a folder that `slipway evaluate --record` or Minari has "
      "written"
    )
  try:
    dataset = minari.MinariDataset(folder / _DATA)
    # Without episodes, Minari's file is empty and can't be read.
    return dataset, list(dataset) if dataset.total_episodes else []
  except Exception as error:  # Minari raises any error for damaged files.
    why = (str(error) or type(error).__name__).splitlines()[0]
    raise ValueError(
      f"folder is {str(folder)!r}, which is not a Minari dataset, so no "
      f"episodes can be read ({why}): give the folder that holds {_DATA}/"
    ) from error


def _describe_values(spec: specs.Array) -> str:
  """Returns the type and shape of a spec's values, such as 'float32 [4]'."""
  sizes = arrays.component_sizes(spec)
  if sizes is not None:
    return f"{' x '.join(map(str, sizes))} discrete values"
  return f"{spec.dtype} {list(spec.shape)}"


def _read_masks(
  folder: str | os.PathLike[str], episode: minari.EpisodeData, size: int
) -> np.ndarray:
  """Returns the action masks [N + 1, M] of an episode of N steps."""
  mask = np.asarray((episode.infos or {}).get(masks.KEY))
  if mask.shape != (len(episode) + 1, size):
    raise ValueError(
      f"folder is {str(folder)!r}, whose episode {episode.id} has no "
      f"infos['{masks.KEY}'] {[len(episode) + 1, size]}, so the legal actions "
      "are unknown: record it with masks, or set "
      "--config.environment.action_mask=false"
    )
  return mask
