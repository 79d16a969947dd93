"""Settings: the fields of a config that may change during a run."""

import difflib
import typing

import ml_collections

from slipway.configs import base

FIELDS = (
  "rates.environment_steps_per_s",
  "limits.environment_steps",
  "limits.trainer_steps",
  "limits.wall_clock_s",
  "limits.target_return",
)


def change(
  config: ml_collections.ConfigDict, field: str, value: typing.Any
) -> int | float:
  """Sets a field of a config.

  Args:
    config: the whole config; changed.
    field: one of `FIELDS`.
    value: a number, or its text as on a command line: '5_000'.

  Returns:
    The field's new value.

  Raises:
    ValueError: one line: the field may not change, or not to this value; the
      config is unchanged.
  """
  if field not in FIELDS:
    near = difflib.get_close_matches(field, FIELDS, n=1, cutoff=0.0)[0]
    raise ValueError(
      f"{field!r} is no field that can change during a run, so nothing "
      f"changes: did you mean {near}?"
    )
  section, _, name = field.partition(".")
  wanted = type(config[section][name])
  try:
    number = _number(value, wanted)
  except (TypeError, ValueError, OverflowError):
    raise ValueError(
      f"{field}={value!r} is not of the field's type, {wanted.__name__}, so "
      f"it stays {config[section][name]!r}: give such a number"
    ) from None
  base.check(field, number)
  config[section][name] = number
  return number


def _number(value: typing.Any, wanted: type) -> int | float:
  if isinstance(value, bool) or wanted not in (int, float):
    raise TypeError
  number = wanted(value)
  if not isinstance(value, str) and wanted is int and number != value:
    raise ValueError
  return number
