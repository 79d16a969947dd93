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
  field_type = type(config[section][name])
  try:
    changed = _convert(value, field_type)
  except (TypeError, ValueError, OverflowError):
    raise ValueError(
      f"{field}={value!r} is not of the field's type, {field_type.__name__}, "
      f"so it stays {config[section][name]!r}: give such a value"
    ) from None
  base.check(field, changed)
  config[section][name] = changed
  return changed


def _convert(value: typing.Any, field_type: type) -> int | float | str:
  """Returns a value after its conversion to a field's type."""
  is_text = isinstance(value, str)
  if isinstance(value, bool) or (field_type is str and not is_text):
    raise TypeError
  if is_text and field_type is int:
    return typed_config.parse_int(value)
  converted = field_type(value)
  if not is_text and field_type is int and converted != value:
    raise ValueError
  return converted
