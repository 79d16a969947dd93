"""Config file: converts a config to JSON and back, without loss.

JSON has neither tuples nor inf. So JSON arrays stand for tuples, and lists and
special floats are marked: {"__list__": [...]} and {"__float__": "inf"}.
"""

import enum
import json
import math
import pathlib
from typing import Any

import ml_collections

from slipway.configs import typed_config


def to_json(config: ml_collections.ConfigDict) -> str:
  """Returns a config as an indented JSON text.

  Raises:
    ValueError: JSON can't represent a field's value.
  """
  tree = _encode(config.to_dict(), "config")
  return json.dumps(tree, indent=2, allow_nan=False) + "\n"


def read(path: pathlib.Path) -> ml_collections.ConfigDict:
  """Reads a config from a JSON file.

  Args:
    path: path of the file, whose text is from `to_json`.

  Raises:
    ValueError: the file can't be read as a config; the message has its path.
  """
  try:
    return from_json(path.read_text(encoding="utf-8"))
  except (OSError, ValueError) as error:
    raise ValueError(
      f"{str(path)!r} cannot be read as a run's config ({error}): restore the "
      "file, or start the run from scratch"
    ) from error


def from_json(text: str) -> ml_collections.ConfigDict:
  """Parses a config from a JSON text.

  Args:
    text: a text from `to_json`.

  Raises:
    ValueError: the text is not JSON, or does not represent a config.
  """
  try:
    tree = json.loads(text)
    if not isinstance(tree, dict):
      raise ValueError("not a JSON object")
    return typed_config.TypedConfig(_decode(tree))
  # ConfigDict raises several types of errors for impossible names.
  except (KeyError, TypeError, AttributeError, RecursionError) as error:
    raise ValueError(" ".join(f"no config: {error}".split())) from error


def _encode(value: Any, field: str) -> Any:
  """Converts a config value to types that JSON has; see the module."""
  if type(value) is dict:
    typed_config.check_keys(value)
    return {k: _encode(v, f"{field}.{k}") for k, v in value.items()}
  if type(value) is tuple:  # others, such as namedtuples, would lose their type
    return [_encode(item, field) for item in value]
  if type(value) is list:
    return {"__list__": [_encode(item, field) for item in value]}
  if isinstance(value, float) and not math.isfinite(value):
    return {"__float__": str(value)}
  is_plain = value is None or isinstance(value, bool | int | float | str)
  if is_plain and not isinstance(value, enum.Enum):
    return value
  raise ValueError(
    f"{field} is {value!r} of type {type(value).__name__}, which config.json "
    "cannot hold, so a resume would read another value: give numbers, strings, "
    "None, or tuples, lists and dicts of them"
  )


def _decode(value: Any) -> Any:
  """Converts a value from JSON to a config value; the inverse of `_encode`."""
  if isinstance(value, list):
    return tuple(_decode(item) for item in value)
  if not isinstance(value, dict):
    return value
  if isinstance(value.get("__list__"), list):
    return [_decode(item) for item in value["__list__"]]
  if value.get("__float__") in ("inf", "-inf", "nan"):
    return float(value["__float__"])
  return {key: _decode(item) for key, item in value.items()}
