"""Records: converts msgspec structures to versioned JSON and back."""

import numbers
import pathlib
import typing

import msgspec

from slipway.launch.runs import error_text

# Version of the JSON format. A text with another version is rejected.
FORMAT_VERSION = 1

Record = typing.TypeVar("Record", bound=msgspec.Struct)


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
  """The content of a JSON text: a record and the version of its format.

  Attributes:
    format_version: `FORMAT_VERSION` of the program that wrote the text.
    record: the record as JSON.
  """

  format_version: int
  record: msgspec.Raw


def to_json(record: msgspec.Struct) -> str:
  """Returns a record as indented JSON, with the version of the format.

  Args:
    record: the structure to convert; numbers that are not finite become null.
  """
  encoded = msgspec.json.encode(record, enc_hook=to_number)
  envelope = _Envelope(FORMAT_VERSION, msgspec.Raw(encoded))
  text = msgspec.json.format(msgspec.json.encode(envelope), indent=2)
  return text.decode() + "\n"


def from_json(text: str | bytes, kind: type[Record]) -> Record:
  """Parses a record from a JSON text.

  Args:
    text: a text from `to_json`.
    kind: type of the record.

  Raises:
    ValueError: the text has another format or version, or its record does not
      fit the type.
  """
  try:
    envelope = msgspec.json.decode(text, type=_Envelope)
    if envelope.format_version != FORMAT_VERSION:
      raise ValueError(
        f"format_version is {envelope.format_version}, and this program reads "
        f"{FORMAT_VERSION} only"
      )
    return msgspec.json.decode(envelope.record, type=kind)
  except (UnicodeDecodeError, RecursionError) as error:
    raise ValueError(str(error)) from error


def read(path: pathlib.Path, kind: type[Record], remedy: str) -> Record:
  """Reads a record from a JSON file.

  Args:
    path: path of the file, whose text is from `to_json`.
    kind: type of the record.
    remedy: advice to the user, with which the error's message ends.

  Raises:
    ValueError: the file cannot be read, or its record does not fit the type.
  """
  try:
    return from_json(path.read_bytes(), kind)
  except (OSError, ValueError) as error:
    text = error_text.one_line(error)
    raise ValueError(
      f"{str(path)!r} cannot be read as {kind.__name__} ({text}): {remedy}"
    ) from error


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
