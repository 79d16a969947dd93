"""Settings: changes limits and rates of a config while its run is active."""

import typing

import ml_collections

from slipway.configs import base, names, typed_config

# Names of the config fields that a user can change during a run.
FIELDS = (
  "rates.environment_steps_per_s",
  "limits.environment_steps",
  "limits.trainer_steps",
  "limits.episodes",
  "limits.wall_clock_s",
  "limits.target_return",
  "limits.target_evaluations",
  "limits.evaluations_without_improvement",
  "limits.combine",
)


def change(
  config: ml_collections.ConfigDict, field: str, value: typing.Any
) -> int | float | str:
  """Changes a field of a config in place, and returns its new value.

  Args:
    config: the whole config, which is changed.
    field: name of a field in `FIELDS`.
    value: the new value, or its text on a command line: '5_000' or '5e3'.

  Returns:
    The field's new value.

  Raises:
    ValueError: the field can't change during a run, or can't have this value.
      The config then stays unchanged.
  """
  if field not in FIELDS:
    raise ValueError(
      f"{field!r} is not a field that can change during a run, so nothing "
      f"changes: {names.advise(field, FIELDS)}"
    )
  section, _, name = field.partition(".")
  before = config[section][name]
  try:
    changed = typed_config.parse(str(value), before)
  except ValueError:
    raise ValueError(
      f"{field}={value!r} is not of the field's type, {type(before).__name__}, "
      f"so it stays {before!r}: give such a value"
    ) from None
  base.check(field, changed)
  config[section][name] = changed
  return changed
