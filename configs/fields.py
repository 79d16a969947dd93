"""Fields: creates and validates configs from declarations of their fields.

A group of fields is a mapping from dotted names to declarations:

```python
SAC = {
  "learner.temperature": fields.Field(
    0.2, "alpha, the weight of the entropy; Haarnoja et al. 2018, table 1",
    checks.above(0, "the policy would become deterministic"),
  ),
}
FIELDS = {**base.FIELDS, **groups.TORSO, **groups.LEARNER, **SAC}
config = fields.make_config(FIELDS)
fields.validate(config, FIELDS)
```

Checks raise a ValueError that names the field, its value and the consequence.
"""

import math
import typing
from collections.abc import Collection, Iterable, Mapping

import ml_collections

from slipway.configs import checks, names, typed_config

# The largest valid integer of a config. JSON, Reverb's rate limiter and metrics
# store counts as doubles, which hold larger integers inexactly.
_MAX_INT = 2**53
# The largest and smallest valid absolute values of a float field other than 0.
# In float32, products of two larger floats are infinite, and products of two
# smaller floats are zero.
_MAX_FLOAT, _MIN_FLOAT = 1e18, 1e-18
# The longest text of a config value or name in an error message, in characters.
_MAX_CHARACTERS = 80


class Field(typing.NamedTuple):
  """The declaration of one config field.

  Attributes:
    default: value of the field unless a config sets another of the same type. A
      mapping declares a section with fields of any name. A float field may be
      infinite only if its default is. An empty tuple declares a tuple of
      strings.
    meaning: description of the field, with its unit and the default's source.
    check: valid values of the field; None: all values of the default's type.
  """

  default: typing.Any
  meaning: str
  check: checks.Check | None = None


# Declarations of config fields, by dotted name such as 'replay.capacity'.
Fields = Mapping[str, Field]


def make_config(fields: Fields) -> ml_collections.ConfigDict:
  """Returns a config with the default values of all declared fields.

  Args:
    fields: declarations by dotted name; each word before a dot names a section
      of the config.
  """
  return add_defaults(ml_collections.ConfigDict(), fields, fields)


def flatten(config: ml_collections.ConfigDict) -> dict[str, typing.Any]:
  """Returns the values of all fields of a config, by dotted field name."""
  found = {}
  for name, value in config.items():
    if isinstance(value, ml_collections.ConfigDict):
      found |= {f"{name}.{rest}": x for rest, x in flatten(value).items()}
    else:
      found[str(name)] = value
  return found


def get(
  config: ml_collections.ConfigDict, name: str, default: typing.Any = None
) -> typing.Any:
  """Returns the value of a config's field or section, by its dotted name.

  The result is `default` if the config has no field or section of this name.
  """
  found: typing.Any = config
  for part in name.split("."):
    if not isinstance(found, ml_collections.ConfigDict) or part not in found:
      return default
    found = found[part]
  return found


def is_equal(value: typing.Any, other: typing.Any) -> bool:
  """Returns whether two values are equal, also with nan in the same places."""
  return value == other or repr(value) == repr(other)


def replace(
  config: ml_collections.ConfigDict, name: str, value: typing.Any
) -> ml_collections.ConfigDict:
  """Returns a copy of a config in which one field has another value."""
  copy = config.copy_and_resolve_references()
  copy.update_from_flattened_dict({name: value})
  return copy


def convert_numbers(
  config: ml_collections.ConfigDict, fields: Fields
) -> ml_collections.ConfigDict:
  """Returns a copy of a config whose numbers have the types of declarations.

  So a file may contain 1e5 for a field of type int. Fields may be missing or
  unknown.
  """
  tree = config.to_dict()
  for name, field in fields.items():
    *sections, last = name.split(".")
    inner: typing.Any = tree
    for section in sections:
      inner = inner.get(section) if isinstance(inner, dict) else None
    if isinstance(inner, dict) and last in inner:
      inner[last] = typed_config.to_type_of(field.default, inner[last])
  return typed_config.TypedConfig(tree)


def find_missing(
  config: ml_collections.ConfigDict, fields: Fields
) -> list[str]:
  """Returns the dotted names of declared fields that a config lacks."""
  absent = object()
  return [name for name in fields if get(config, name, absent) is absent]


def add_defaults(
  config: ml_collections.ConfigDict, names: Iterable[str], fields: Fields
) -> ml_collections.ConfigDict:
  """Returns a copy of a config with the defaults of the fields `names`."""
  tree = config.to_dict()
  for name in names:
    *sections, last = name.split(".")
    inner = tree
    for section in sections:
      inner = inner.setdefault(section, {})
    inner[last] = fields[name].default
  return typed_config.TypedConfig(tree)


def find_unknown(
  config: ml_collections.ConfigDict, fields: Fields
) -> list[str]:
  """Returns the dotted names of a config's fields that are not declared."""
  free = tuple(
    f"{name}." for name, x in fields.items() if isinstance(x.default, Mapping)
  )
  return [
    name
    for name in flatten(config)
    if name not in fields and not name.startswith(free)
  ]


def validate(config: ml_collections.ConfigDict, fields: Fields) -> None:
  """Checks that a config has exactly the declared fields, with valid values.

  A builder's `check` method checks rules that concern several fields.
  """
  check_names(config, fields)
  for name, field in fields.items():
    check(name, get(config, name), field)


def check_names(config: ml_collections.ConfigDict, fields: Fields) -> None:
  """Raises ValueError unless a config has exactly the declared fields."""
  for name in find_unknown(config, fields):
    raise ValueError(
      f"config.{shorten(name)} is no field of config.agent="
      f"{format_value(config.get('agent'))}, so its value would have no "
      f"effect: {advise(name, fields)}"
    )
  for name in find_missing(config, fields):
    raise ValueError(
      f"config.{name} is missing, so its value is not known: set it, for "
      f"example to {fields[name].default!r}"
    )


def check(name: str, value: typing.Any, field: Field) -> None:
  """Checks the type and the range of one field's value.

  Args:
    field: the field's declaration.
  """
  shown = f"config.{name}={format_value(value)}"
  if not _has_type(value, field.default):
    raise ValueError(
      f"{shown} must be of type {type_name(field.default)}: a value of another "
      "type can't be used"
    )
  if isinstance(value, float) and math.isnan(value):
    raise ValueError(
      f"{shown} must be a number: nothing is above, below or equal to nan"
    )
  # Infinity times zero in a loss or a clipped gradient is not a number.
  infinite = isinstance(value, float) and not math.isfinite(value)
  if infinite and value != field.default:
    raise ValueError(
      f"{shown} must be finite: nothing could be computed with it"
    )
  rule = field.check
  if rule is not None and not rule.accepts(value):
    is_text = isinstance(value, str)
    near = names.find_word(value, rule.choices) if is_text else None
    advice = f"; did you mean {near!r}?" if near else ""
    raise ValueError(
      f"{shown} must be {rule.wanted}: {rule.consequence}{advice}"
    )
  if rule is not None and rule.most < math.inf and value > rule.most:
    raise ValueError(
      f"{shown} must be at most {rule.most}: with more, no run could learn, or "
      "no machine, library or timer could handle it"
    )
  for number in value if isinstance(value, tuple) else (value,):
    if infinite or not isinstance(number, int | float):
      continue
    if not isinstance(field.default, float):
      if abs(number) > _MAX_INT:
        raise ValueError(
          f"{shown} must be within 2**53: larger counts are not exact"
        )
    elif number and not _MIN_FLOAT <= abs(number) <= _MAX_FLOAT:
      raise ValueError(
        f"{shown} must be 0, or {_MIN_FLOAT:g} to {_MAX_FLOAT:g} in size: "
        "float32 can't compute with it"
      )


def format_value(value: typing.Any) -> str:
  """Returns a value's repr as one line, truncated after 80 characters.

  If repr raises an error, the result is the type's name in parentheses.
  """
  try:
    return shorten(repr(value))
  except Exception:  # an int of too many digits, or a user's own __repr__
    return f"({type(value).__name__})"


def shorten(text: str) -> str:
  """Returns a text as one printable line, truncated after 80 characters.

  A truncated line ends in '...'.
  """
  line = " ".join(text.split())
  if not line.isprintable():
    line = repr(line)
  if len(line) <= _MAX_CHARACTERS:
    return line
  return f"{line[:_MAX_CHARACTERS]}..."


def type_name(value: typing.Any) -> str:
  """Returns the name of a config value's type: 'int' or 'tuple of int'.

  All mappings have the name 'ConfigDict', the type of a config's sections.
  """
  if isinstance(value, Mapping):
    return "ConfigDict"
  if isinstance(value, tuple):
    return (
      f"tuple of {' or '.join(sorted(x.__name__ for x in _item_types(value)))}"
    )
  return type(value).__name__


def advise(name: str, known: Collection[str], prefix: str = "config.") -> str:
  """Returns the advice that ends an error message about an unknown field.

  It names the most similar field, the fields of the same section, or the
  command that lists all fields.
  """

  def list_fields(section: str) -> str:
    start = f"{section}."
    return ", ".join(
      x.removeprefix(start) for x in known if x.startswith(start)
    )

  if inside := list_fields(name):
    return f"give one of the section's fields, {prefix}{name}.{inside}"
  if near := names.find_field(name, known):
    return f"did you mean {prefix}{near}?"
  section = name.rpartition(".")[0]
  if inside := list_fields(section):
    return f"the fields of {prefix}{section} are {inside}"
  return "`slipway train --config=FILE --help` shows all fields"


def _has_type(value: typing.Any, default: typing.Any) -> bool:
  if isinstance(default, float):
    return isinstance(value, int | float) and not isinstance(value, bool)
  if isinstance(default, tuple):
    return isinstance(value, tuple) and (
      not value or _item_types(value) <= _item_types(default)
    )
  if isinstance(default, Mapping):
    return isinstance(value, ml_collections.ConfigDict)
  return type(value) is type(default)


def _item_types(items: tuple) -> set[type]:
  return {type(x) for x in items} or {str}
