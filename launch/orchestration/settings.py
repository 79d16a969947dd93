"""Settings: changes fields of the config during a run."""

import typing

import ml_collections

from slipway.configs import base, names

FIELDS = (
  "rates.environment_steps_per_s",
  "limits.environment_steps",
  "limits.trainer_steps",
  "limits.episodes",
  "limits.wall_clock_s",
  "limits.target_return",
  "limits.evaluations_without_improvement",
  "limits.combine",
)


def change(
  config: ml_collections.ConfigDict, field: str, value: typing.Any
) -> int | float | str:
  """Changes a field of a config.

  Args:
    config: the whole config, which is changed.
    field: name of a field in `FIELDS`.
    value: the new value, also as text of a command line, such as '5_000'.

  Returns:
    The field's new value.

  Raises:
    ValueError: the field can't change, or can't have this value; the
      config stays unchanged.
  """
  if field not in FIELDS:
    raise ValueError(
      f"{field!r} is no field that can change during a run, so nothing "
      f"changes: {names.advise(field, FIELDS)}"
    )
  section, _, name = field.partition(".")
  wanted = type(config[section][name])
  try:
    changed = _convert(value, wanted)
  except (TypeError, ValueError, OverflowError):
    raise ValueError(
      f"{field}={value!r} is not of the field's type, {wanted.__name__}, so "
      f"it stays {config[section][name]!r}: give such a value"
    ) from None
  base.check(field, changed)
  config[section][name] = changed
  return changed


def _convert(value: typing.Any, wanted: type) -> int | float | str:
  if isinstance(value, bool) or (wanted is str and not isinstance(value, str)):
    raise TypeError
  number = wanted(value)
  if not isinstance(value, str) and wanted is int and number != value:
    raise ValueError
  return number
