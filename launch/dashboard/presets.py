"""Presets: finds the preset from which a run's config differs least."""

import functools
import pathlib
import typing
from collections.abc import Iterator, Mapping

from slipway.configs import catalog, fields
from slipway.launch.runs import config_file


@functools.lru_cache(1_000)
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
  config = config_file.read(path)
  values = fields.flatten(config)
  nearest, least, declared = None, {}, {}
  for name, preset, own in _list_presets(str(config.get("agent"))):
    changed = {
      k: preset.get(k)
      for k, v in values.items()
      if not fields.is_equal(v, preset.get(k))
    }
    if nearest is None or len(changed) < len(least):
      nearest, least, declared = name, changed, own
  rows = [
    (
      name,
      fields.format_value(value),
      fields.format_value(least[name]) if name in least else None,
      declared[name].meaning if name in declared else "",
    )
    for name, value in values.items()
  ]
  return {"preset": nearest, "rows": rows}


def _list_presets(
  agent: str,
) -> Iterator[tuple[str, dict[str, typing.Any], fields.Fields]]:
  """Yields name, values and declared fields of each preset of a family."""
  for algorithm, module in catalog.algorithms().items():
    for preset in module.PRESETS:
      values = module.RECIPE.list_values(preset)
      if values["agent"] == agent:
        flat = {}
        for name, value in values.items():
          is_section = isinstance(value, Mapping)  # with fields of any name
          nested = (
            {f"{name}.{k}": v for k, v in value.items()}
            if is_section
            else {name: value}
          )
          flat |= nested
        yield f"{algorithm}:{preset}", flat, module.RECIPE.declared
