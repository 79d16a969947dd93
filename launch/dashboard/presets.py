"""Presets: finds the preset from which a run's config differs least."""

import pathlib
import typing

from slipway.configs import catalog, fields
from slipway.launch.runs import config_file


def describe(path: pathlib.Path) -> dict[str, typing.Any]:
  """Returns a run's config, with its differences to the nearest preset.

  Args:
    path: path of the run's config.json.

  Returns:
    'preset', such as 'dqn:cartpole', or None for an algorithm of the user's
    own; and 'rows', each with the field, its value, the preset's value or None
    if it is the same, and its meaning.

  Raises:
    ValueError: the file can't be read.
  """
  config = fields.flatten(config_file.read(path))
  name, preset, meanings = _find_nearest(config)
  rows = []
  for field, value in config.items():
    old = preset.get(field)
    is_same = name is None or fields.is_equal(value, old)
    shown = None if is_same else fields.format_value(old)
    meaning = meanings[field].meaning if field in meanings else ""
    rows.append((field, fields.format_value(value), shown, meaning))
  return {"preset": name, "rows": rows}


def _find_nearest(
  config: dict[str, typing.Any],
) -> tuple[str | None, dict[str, typing.Any], fields.Fields]:
  """Returns the nearest preset's name, its config, and declarations."""
  least, nearest = len(config), None
  for algorithm, module in catalog.algorithms().items():
    for preset in module.PRESETS:
      values = module.RECIPE.list_values(preset)
      same = [fields.is_equal(x, config.get(k)) for k, x in values.items()]
      if values["agent"] == config.get("agent") and same.count(False) < least:
        least, nearest = same.count(False), (algorithm, preset, module.RECIPE)
  if nearest is None:
    return None, {}, {}
  algorithm, preset, recipe = nearest
  flat = fields.flatten(recipe.get_config(preset))
  return f"{algorithm}:{preset}", flat, recipe.declared
