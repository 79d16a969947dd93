"""Presets: named changes of a config, which each algorithm has of its own."""

from collections.abc import Callable, Mapping

import ml_collections

# Name to a function that changes a config.
Presets = Mapping[str, Callable[[ml_collections.ConfigDict], None]]


class UnknownPresetError(ValueError):
  """A config has no preset of a name; one line."""


def apply(
  config: ml_collections.ConfigDict, presets: Presets, name: str
) -> None:
  """Changes a config to a preset.

  Raises:
    UnknownPresetError: one line: there is no preset of this name.
  """
  if name not in presets:
    raise UnknownPresetError(
      f"config preset {name!r} is unknown, so there are no numbers to run "
      f"with: choose one of {', '.join(presets)}"
    )
  presets[name](config)
