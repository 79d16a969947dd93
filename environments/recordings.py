"""Recordings: reads complete episodes of Minari datasets.

`recorder` and Minari write such datasets.
https://minari.farama.org/content/dataset_standards
"""

import math
import os
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import gymnasium
import minari
import numpy as np

from slipway.environments import (
  arrays,
  checked,
  conversion,
  masks,
  spaces,
  specs,
)

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


def read(
  folder: str | os.PathLike[str], spec: specs.EnvironmentSpec
) -> Episodes:
  """Reads all episodes of a folder into memory; see `read_each`."""
  columns = zip(*read_each(folder, spec), strict=True)
  return Episodes(*map(np.concatenate, columns))


def read_each(
  folder: str | os.PathLike[str], spec: specs.EnvironmentSpec
) -> Iterator[Episodes]:
  """Reads one episode of a folder after the other.

  An episode's last step becomes truncated if it is neither terminated nor
  truncated. The function imports neither TensorFlow nor JAX.

  Args:
    folder: Folder of a Minari dataset or of several, such as the parts of
      `recorder.Recorder`; or a dataset's name in Minari's local folder, which
      is MINARI_DATASETS_PATH or ~/.minari/datasets.

  Yields:
    The episodes with at least one step, in the order of the datasets' names.

  Raises:
    ValueError: The folder does not exist, a dataset of it is damaged, there are
      no episodes, or they have observations or actions of another spec.
  """
  is_empty = True
  for path in _find_datasets(folder):
    for episode in _read_dataset(path, spec):
      is_empty = False
      length = len(episode[2])  # of the rewards
      yield Episodes(*episode, lengths=np.array([length], np.int64))
  if is_empty:
    raise ValueError(
      f"folder is {str(folder)!r}, a dataset without episodes, so there is "
      "nothing to learn from: record at least one"
    )


def read_spaces(folder: str | os.PathLike[str]) -> dict[str, gymnasium.Space]:
  """Returns a folder's observation_space and action_space, by these names.

  Raises:
    ValueError: The folder does not exist, or its first dataset is damaged.
  """
  dataset, _ = _load_dataset(_find_datasets(folder)[0])
  names = ("observation_space", "action_space")
  return {name: getattr(dataset, name) for name in names}


def count(folder: str | os.PathLike[str]) -> tuple[int, int]:
  """Returns the numbers of episodes and steps of a folder; see `read_each`."""
  found = [minari.MinariDataset(x / _DATA) for x in _find_datasets(folder)]
  episodes = sum(dataset.total_episodes for dataset in found)
  return int(episodes), int(sum(dataset.total_steps for dataset in found))


def _find_datasets(folder: str | os.PathLike[str]) -> list[pathlib.Path]:
  """Returns the folders of the datasets that a user has named, sorted."""
  path = pathlib.Path(os.path.expanduser(folder))
  if not path.is_dir():
    root = os.environ.get("MINARI_DATASETS_PATH", "~/.minari/datasets")
    named = pathlib.Path(os.path.expanduser(root), path)
    if not named.is_dir():
      raise ValueError(
        f"folder is {str(folder)!r}, which does not exist, and neither does "
        f"{str(named)!r} of Minari, so no episodes can be read: give a folder "
        "that `slipway record`, recording.path or Minari has written, or "
        f"`minari download {folder}`"
      )
    path = named
  if (path / _DATA).is_dir():
    return [path]
  parts = [x for x in sorted(path.glob(f"[!.]*/{_DATA}")) if x.is_dir()]
  # Without parts, the error names what is missing.
  return [x.parent for x in parts] or [path]


def _read_dataset(
  folder: pathlib.Path, spec: specs.EnvironmentSpec
) -> Iterator[tuple[np.ndarray, ...]]:
  """Yields the columns of each episode, in the order of `Episodes`."""
  dataset, recorded = _load_dataset(folder)
  _check_spaces(folder, dataset, spec)
  observations_spec = arrays.remove_mask(spec.observations)
  convert = conversion.make_observation_converter_to_spec(
    dataset.observation_space, observations_spec.dtype, copy=False
  )
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
    actions = np.asarray(episode.actions)
    rewards = np.asarray(episode.rewards)
    terminated = np.array(episode.terminations, np.bool_)
    truncated = np.array(episode.truncations, np.bool_)
    for what, values, needed in (
      ("observations", observations, length + 1),
      ("actions", actions, length),
      ("rewards", rewards, length),
      ("terminations", terminated, length),
      ("truncations", truncated, length),
    ):
      if len(values) != needed:
        raise ValueError(
          f"{prefix} {len(values)} {what} for {length} steps, which can't be "
          f"matched: record it with {needed}"
        )
    if isinstance(spec.observations, arrays.MaskedArray):
      mask = _read_masks(folder, episode, spec.observations.mask_size)
      observations = spec.observations.join(observations, mask)
    truncated[-1] |= not terminated[-1]
    ended = terminated | truncated
    if ended[:-1].any():
      raise ValueError(
        f"{prefix} steps after its end at step {int(np.argmax(ended))} of "
        f"{length}, so it would be learned that an episode's last observation "
        "leads to the next one's first: record each episode on its own"
      )
    _check_numbers(prefix, "observations", observations)
    _check_numbers(prefix, "rewards", rewards)
    _check_actions(prefix, dataset.action_space, actions)
    yield (
      observations,
      conversion.convert_actions_to_spec(dataset.action_space, actions),
      rewards.astype(np.float32),
      terminated,
      truncated,
    )


def _check_spaces(
  folder: pathlib.Path,
  dataset: minari.MinariDataset,
  spec: specs.EnvironmentSpec,
) -> None:
  """Raises ValueError unless a dataset has the spaces of the environment."""
  expected_spec = arrays.remove_mask(spec.observations)
  found = specs.make_spec(
    dataset.id, dataset.observation_space, dataset.action_space
  )
  for what, expected, actual in (
    (
      "observations",
      _describe_values(expected_spec),
      _describe_values(found.observations),
    ),
    (
      "actions",
      _describe_values(spec.actions),
      _describe_values(found.actions),
    ),
  ):
    # Structured observations and images are recorded as vectors.
    flat = f"{expected_spec.dtype} [{math.prod(expected_spec.shape)}]"
    if expected != actual and (what != "observations" or actual != flat):
      raise ValueError(
        f"folder is {str(folder)!r}, whose {what} are {actual}, but those of "
        f"the environment are {expected}, so its episodes can't be used: give "
        "episodes of the same environment, or set config.environment to theirs"
      )


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
