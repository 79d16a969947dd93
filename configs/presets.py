"""Presets: named sets of config values of an algorithm, each for one task."""

from collections.abc import Callable, Mapping

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
    raise UnknownPresetError(
      f"config preset {name!r} is unknown, so there are no values to run "
      f"with: choose one of {', '.join(presets)}"
    )
  presets[name](config)
