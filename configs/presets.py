"""Presets: named sets of config values; each algorithm defines its own."""

from collections.abc import Callable, Mapping

import ml_collections

# Functions by preset name; each sets the values of its preset in a config.
Presets = Mapping[str, Callable[[ml_collections.ConfigDict], None]]


class UnknownPresetError(ValueError):
  """An algorithm has no preset with the given name."""


def apply(
  config: ml_collections.ConfigDict, presets: Presets, name: str
) -> None:
  """Sets the values of a preset in a config.

  Args:
    config: config that is changed.
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
