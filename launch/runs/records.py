"""Records: writes msgspec structures as JSON files, and reads them."""

import numbers
import pathlib
import typing

import msgspec

from slipway.launch.runs import error_text

Record = typing.TypeVar("Record", bound=msgspec.Struct)


def to_json(record: typing.Any) -> bytes:
  """Returns a record as indented JSON.

  Args:
    record: the structure to convert, or a list or dict of some; numbers that
      are not finite become null.
  """
  encoded = msgspec.json.encode(record, enc_hook=to_number)
  return msgspec.json.format(encoded, indent=2) + b"\n"


def read(path: pathlib.Path, kind: type[Record], advice: str) -> Record:
  """Reads a record from a JSON file.

  Args:
    path: path of the file, whose content is from `to_json`.
    advice: what follows for the user, and what to do: the end of the error.

  Raises:
    FileNotFoundError: there is no such file.
    ValueError: the file can't be read, or its record does not fit the type.
  """
  try:
    return msgspec.json.decode(path.read_bytes(), type=kind)
  except FileNotFoundError:
    raise
  except (OSError, ValueError, RecursionError) as error:
    text = error_text.one_line(error)
    raise ValueError(f"{str(path)!r} can't be read ({text}){advice}") from error


def to_number(value: typing.Any) -> int | float:
  """Converts a NumPy scalar to a Python number, as msgspec's `enc_hook`.

  Raises:
    TypeError: the value is not a number.
  """
  if isinstance(value, numbers.Integral):
    return int(value)
  if isinstance(value, numbers.Real):
    return float(value)
  raise TypeError(
    f"{value!r} of type {type(value).__name__} is no number, so it has "
    "no place in a record: convert it to int or float first"
  )
