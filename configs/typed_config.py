"""TypedConfig: the config whose fields accept each number of their type.

It also parses the texts of values, as on a command line.

`config.limits.environment_steps = 1e5` sets the int 100,000, and a NumPy number
becomes the int or float that the field holds. A ConfigDict of ml_collections
rejects both.
"""

import ast
import numbers
import typing
from collections.abc import Mapping

import ml_collections

# Texts of bools, in small letters.
_BOOLS = {"true": True, "t": True, "1": True}
_BOOLS |= {"false": False, "f": False, "0": False}


class TypedConfig(ml_collections.ConfigDict):
  """A config, or one of its sections, whose numbers keep their types.

  Keys keep their order, which may matter to an environment.
  """

  def __init__(
    self,
    initial: Mapping[str, typing.Any] | ml_collections.ConfigDict | None = None,
  ):
    super().__init__(sort_keys=False)  # pyright: ignore[reportCallIssue]
    for key, value in dict(initial or {}).items():
      self[key] = value

  def __setitem__(self, key: typing.Any, value: typing.Any) -> None:
    """Sets a field; a number becomes one of the field's type.

    Args:
      value: the new value. In a tuple, each item is converted.

    Raises:
      ValueError: the name, or that of a field in the value, is no text.
      TypeError: the value has another type than the field, or is a whole number
        beyond floats; the message names both.
    """
    if isinstance(value, dict) or type(value) is ml_collections.ConfigDict:
      check_keys(dict(value))
      value = TypedConfig(value)
    old = self.get(key)
    if self.is_type_safe:
      value = to_type_of(old, value)
    try:
      super().__setitem__(key, value)
    except (TypeError, OverflowError) as error:
      raise TypeError(
        f"field {key!r} is {old!r} of type {type(old).__name__}, so "
        f"{value!r:.80} of type {type(value).__name__} can't replace it: give "
        "a value of the field's type"
      ) from error

  def __eq__(self, other: object) -> bool:
    """Returns whether two configs have equal fields, whatever their classes."""
    return self.eq_as_configdict(other)


def check_keys(tree: Mapping[typing.Any, typing.Any]) -> None:
  """Raises ValueError if a key of a dict, or of a dict in it, is no text."""
  for key, value in tree.items():
    if isinstance(value, dict):
      check_keys(value)
    if not isinstance(key, str):
      raise ValueError(
        f"a dict has the key {key!r:.80} of type {type(key).__name__}, but "
        "config.json keeps keys as text, so another dict would be read: give "
        "text, or a list of pairs from which your code makes the dict"
      )
    if key.startswith("__"):
      raise ValueError(
        f"a dict has the key {key!r:.80}, but config.json uses keys that begin "
        "with '__' itself, so another value would be read: give another key"
      )


def to_type_of(old: typing.Any, value: typing.Any) -> typing.Any:
  """Returns a number as the type of another one, if no digit is lost.

  Args:
    value: a number, or a tuple or list of numbers; other values are returned
      unchanged, and so are numbers that can't be converted.
  """
  if isinstance(old, tuple) and old and isinstance(value, tuple | list):
    return tuple(to_type_of(old[0], item) for item in value)
  if isinstance(value, bool) or not isinstance(value, numbers.Real):
    return value
  number: typing.Any = value
  is_whole = isinstance(value, numbers.Integral) or float(number).is_integer()
  if type(old) is int and is_whole:
    return int(number)
  try:
    return float(number) if type(old) is float else value
  except OverflowError:
    return value


def parse_int(text: str) -> int:
  """Returns a whole number from its text, such as '100_000' or '1e5'.

  Raises:
    ValueError: the text is no whole number.
  """
  try:
    return int(text)
  except ValueError:
    number = float(text)
    if not number.is_integer():  # neither is inf or nan
      raise ValueError(f"{text!r} is no whole number") from None
    return int(number)


def parse(text: str, like: typing.Any) -> typing.Any:
  """Returns the value that a text stands for.

  Args:
    text: such as '1e5' for an int. Items of a tuple are separated by commas, as
      in '64,64'; a Python literal, '(64, 64)', is one, too.
    like: a value of the type. An empty tuple is one of texts.

  Raises:
    ValueError: no value of this type has the text.
  """
  if isinstance(like, bool):
    if text.lower() not in _BOOLS:
      raise ValueError(f"{text!r} is no bool")
    return _BOOLS[text.lower()]
  if isinstance(like, int):
    return parse_int(text)
  if isinstance(like, float):
    return float(text)
  if not isinstance(like, tuple):
    return text
  first = like[0] if like else ""
  if isinstance(first, str) and not text.startswith(("(", "[", "'", '"')):
    return tuple(x.strip() for x in text.split(",") if x.strip())
  value = parse_literal(text)
  items = value if isinstance(value, tuple | list) else (value,)
  items = tuple(to_type_of(first, item) for item in items)
  if not {*map(type, items)} <= {type(first), *map(type, like)}:
    raise ValueError(f"{text!r} has items of another type")
  return items


def parse_literal(text: str) -> typing.Any:
  """Returns the Python literal that a text is, or the text itself."""
  if text in ("true", "false"):
    return _BOOLS[text]
  try:
    return ast.literal_eval(text)
  # Deep nesting and `{[]: 1}` raise errors of other types.
  except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
    return text
