"""Presets: named sets of config values; each algorithm defines its own."""

from collections.abc import Callable, Mapping

import ml_collections

# Functions that set a preset's values in a config, by the preset's name.
Presets = Mapping[str, Callable[[ml_collections.ConfigDict], None]]


class UnknownPresetError(ValueError):
  """An algorithm has no preset with the given name; the text is one line."""


def apply(
  config: ml_collections.ConfigDict, presets: Presets, name: str
) -> None:
  """Sets the values of a preset in a config.

  Raises:
    UnknownPresetError: no preset has this name.
  """
  if name not in presets:
    raise UnknownPresetError(
      f"config preset {name!r} is unknown, so there are no values to run "
      f"with: choose one of {', '.join(presets)}"
    )
  presets[name](config)
