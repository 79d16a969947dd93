"""Space: the config fields that a sweep varies, and the values that they take.

An axis of the space is written like an override:

    learner.learning_rate=1e-4,3e-4,1e-3
    learner.learning_rate,learner.batch_size=1e-4,32;3e-4,64
    learner.learning_rate=log:1e-5..1e-2

The second one varies two fields together. The third one is a range, for random
search and Optuna.
"""

import contextlib
import itertools
import math
import typing
from collections.abc import Sequence

import numpy as np

from slipway.configs import catalog
from slipway.configs import fields as fields_lib
from slipway.launch.options import flags

# Names of flags that an axis can vary in place of a field of the config, as in
# 'config=dqn,rainbow'.
_FLAGS = ("config", "mode")
_LOG = "log:"
_MAX_BOUND = 2.0**62  # beyond it, integers can't be drawn

# Values as text, by field: what makes the runs of a sweep differ.
Setting = dict[str, str]


class Choices(typing.NamedTuple):
  """An axis with a list of values.

  Attributes:
    fields: names of F fields, which vary together.
    values: the values, as text: V tuples of F texts.
  """

  fields: tuple[str, ...]
  values: tuple[tuple[str, ...], ...]

  def draw(self, generator: np.random.Generator) -> Setting:
    """Returns one of the values at random."""
    return self.at(int(generator.integers(len(self.values))))

  def at(self, index: int) -> Setting:
    """Returns the value with an index."""
    return dict(zip(self.fields, self.values[index], strict=True))


class Range(typing.NamedTuple):
  """An axis with an interval of numbers.

  Attributes:
    field: name of the field.
    low: smallest value.
    high: largest value.
    is_integer: whether the values are integers.
    is_log: whether the logarithm is uniform in random draws, not the value.
  """

  field: str
  low: float
  high: float
  is_integer: bool
  is_log: bool

  def draw(self, generator: np.random.Generator) -> Setting:
    """Returns a value at random."""
    if self.is_log:
      low, high = math.log(self.low), math.log(self.high)
      return self.to_setting(math.exp(generator.uniform(low, high)))
    if self.is_integer:
      return self.to_setting(
        generator.integers(int(self.low), int(self.high), endpoint=True)
      )
    return self.to_setting(generator.uniform(self.low, self.high))

  def to_setting(self, value: float) -> Setting:
    """Returns a value as text, a float with six significant digits."""
    if self.is_integer:
      return {self.field: str(round(value))}
    rounded = min(max(float(f"{value:.6g}"), self.low), self.high)
    return {self.field: repr(rounded)}


Axis = Choices | Range


def parse(text: str) -> Axis:
  """Parses an axis.

  Args:
    text: value of --vary; the module's docstring has the forms.

  Raises:
    ValueError: the text is no axis.
  """
  names, given, values = text.partition("=")
  fields = tuple(
    name if name in _FLAGS else name.removeprefix("config.")
    for name in _split(names.lstrip("-"), ",")
  )
  if not given or not values or not all(fields):
    raise ValueError(
      f"--vary={text} has no field or no values, so nothing would vary: give "
      "FIELD=VALUE,VALUE, such as learner.learning_rate=1e-4,3e-4"
    )
  if "seed" in fields:
    raise ValueError(
      f"--vary={text}: each setting is trained with the same seeds, so this "
      "would have no effect: give --seeds=NUMBER or --first_seed=NUMBER"
    )
  if len({*fields}) < len(fields):
    raise ValueError(
      f"--vary={text} names a field twice, so one of its values would be "
      "lost: name it once"
    )
  if len(fields) == 1 and _is_range(values):
    return _parse_range(text, fields[0], values)
  groups = _split(values, ";" if len(fields) > 1 else ",")
  split = tuple(
    tuple(_split(group, ",")) if len(fields) > 1 else (group,)
    for group in groups
  )
  if len(fields) == 1 and not all(groups):
    raise ValueError(
      f"--vary={text} has an empty value, which no field can take: remove the "
      "surplus ','"
    )
  for group, parts in zip(groups, split, strict=True):
    if len(parts) != len(fields) or not all(parts):
      raise ValueError(
        f"--vary={text}: {group!r} has {len(parts)} values for "
        f"{len(fields)} fields, so it can't be used: separate the values of "
        "one setting by ',' and settings by ';'"
      )
  values = [tuple(map(_to_comparable, parts)) for parts in split]
  for index, value in enumerate(values):
    if value in values[:index]:
      raise ValueError(
        f"--vary={text}: {groups[index]!r} is equal to "
        f"{groups[values.index(value)]!r}, so the same setting would be "
        "trained twice: remove one of them"
      )
  return Choices(fields, split)


def check(axes: Sequence[Axis]) -> None:
  """Checks that no field has two axes.

  Raises:
    ValueError: a field has two axes.
  """
  names = [name for axis in axes for name in _list_fields(axis)]
  twice = next((name for name in names if names.count(name) > 1), None)
  if twice is not None:
    raise ValueError(
      f"--vary sets {twice} twice, so one of the values would be lost: give "
      "all its values in one --vary"
    )


def make_grid(axes: Sequence[Axis]) -> list[Setting]:
  """Returns all combinations of the axes' values; [{}] without axes.

  Raises:
    ValueError: an axis is a range, which has no list of values.
  """
  for axis in axes:
    if isinstance(axis, Range):
      raise ValueError(
        f"--vary={axis.field} is a range, which a grid can't list: give "
        "values separated by ',', or --search=random"
      )
  choices = [axis for axis in axes if isinstance(axis, Choices)]
  return [
    _merge(axis.at(i) for axis, i in zip(choices, indices, strict=True))
    for indices in itertools.product(*(range(len(x.values)) for x in choices))
  ]


def draw(axes: Sequence[Axis], seed: int, index: int) -> Setting:
  """Returns a random setting, which depends only on the arguments.

  Args:
    axes: the axes of the space.
    seed: seed of the search.
    index: index of the setting in the sweep.
  """
  generator = np.random.default_rng((seed, index))
  return _merge(axis.draw(generator) for axis in axes)


def to_flags(setting: Setting) -> list[str]:
  """Returns a setting as flags of `slipway train`."""
  return [
    f"--{name}={value}" if name in _FLAGS else f"--config.{name}={value}"
    for name, value in setting.items()
  ]


def describe(setting: Setting) -> str:
  """Returns a setting as text: 'ppo:cartpole learning_rate=1e-4'."""
  short = {name: name.rpartition(".")[2] for name in setting}
  if len({*short.values()}) < len(short):
    short = {name: name for name in setting}
  words = [
    value if name == "config" else f"{short[name]}={value}"
    for name, value in setting.items()
  ]
  return " ".join(words) or "as configured"


def _merge(settings: typing.Iterable[Setting]) -> Setting:
  """Returns one setting with the fields of several."""
  return {name: x for setting in settings for name, x in setting.items()}


def _list_fields(axis: Axis) -> tuple[str, ...]:
  """Returns the names of the fields that an axis varies."""
  return (axis.field,) if isinstance(axis, Range) else axis.fields


def _split(text: str, separator: str) -> list[str]:
  """Splits a text at a separator that is not inside brackets."""
  parts, depth = [""], 0
  for character in text:
    depth += (character in "([{") - (character in ")]}")
    if character == separator and depth == 0:
      parts.append("")
    else:
      parts[-1] += character
  return [part.strip() for part in parts]


def _to_comparable(text: str) -> int | float | str:
  """Returns a value such that those that configs take as equal are equal."""
  for number in (int, float):
    with contextlib.suppress(ValueError):
      return number(text)
  return text


def _is_range(values: str) -> bool:
  """Returns whether the values of an axis are a range, valid or not.

  Two dots with no number on either side belong to a path, such as '../data'.

  Args:
    values: the part after '='.
  """
  low, dots, high = values.removeprefix(_LOG).partition("..")
  if not dots or len(_split(values, ",")) > 1:
    return False
  return values.startswith(_LOG) or any(map(flags.is_number, (low, high)))


def _is_int_field(name: str) -> bool:
  """Returns whether a config field of a built-in algorithm is an int."""
  return any(
    type(fields_lib.get(module.get_config(), name)) is int
    for module in catalog.algorithms().values()
  )


def _parse_range(text: str, field: str, values: str) -> Range:
  """Parses 'LOW..HIGH' or 'log:LOW..HIGH'.

  Args:
    text: value of --vary, for the error message.
    field: name of the field.
    values: the part after '='.

  Raises:
    ValueError: the bounds are no numbers, or not in order.
  """
  low, _, high = values.removeprefix(_LOG).partition("..")
  is_log = values.startswith(_LOG)
  try:
    bounds = float(low), float(high)
    # Bounds with digits only, or whole ones such as 1e5 of an int field.
    is_integer = all(
      x.replace("_", "").lstrip("+-").isdigit() for x in (low, high)
    ) or (all(x.is_integer() for x in bounds) and _is_int_field(field))
    if not -_MAX_BOUND < bounds[0] < bounds[1] < _MAX_BOUND:
      raise ValueError
    if is_log and bounds[0] <= 0:
      raise ValueError
  except ValueError as error:
    raise ValueError(
      f"--vary={text} is no range, so nothing could be drawn: give LOW..HIGH "
      "with LOW < HIGH, such as 0.9..0.999; after log:, both above 0"
    ) from error
  return Range(field, *bounds, is_integer, is_log)
