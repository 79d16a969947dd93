"""Presets: named sets of config values of an algorithm, each for one task."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping

import ml_collections

# The presets of one algorithm: functions, by preset name, that each set the
# preset's values in a config.
Presets = Mapping[str, Callable[[ml_collections.ConfigDict], None]]


class UnknownPresetError(ValueError):
  """An algorithm has no preset with the given name."""


def apply(
  config: ml_collections.ConfigDict, presets: Presets, name: str
) -> None:
  """Sets the values of a preset in a config.

  Args:
    config: config with the algorithm's fields, which is changed in place.
    presets: all presets of the config's algorithm.
    name: name of the preset.

  Raises:
    UnknownPresetError: no preset has this name; the message lists all.
  """
  if name not in presets:
    near = find_similar(name, presets)
    advice = f"did you mean {near}? " if near else ""
    raise UnknownPresetError(
      f"config preset {name!r} is unknown, so there are no values to run "
      f"with: {advice}choose one of {', '.join(presets)}"
    )
  presets[name](config)


def find_similar(name: str, presets: Collection[str]) -> str | None:
  """Returns the preset with the most similar name, or None.

  Args:
    name: name of a preset that does not exist, or of its environment, such as
      'CartPole-v1' or 'breakout'.
    presets: names of all presets.
  """
  task = re.sub(r"[-_]?v\d+$", "", name.strip().lower())
  for preset in presets:  # 'breakout' stands for 'minatar_breakout'
    if len(task) > 2 and task in (preset, *preset.split("_")):
      return preset
  near = difflib.get_close_matches(task, presets, n=1, cutoff=0.7)
  return near[0] if near else None
