"""Records: reads and writes typed structures as JSON with a version."""

import numbers
import pathlib
import typing

import msgspec

FORMAT_VERSION = 1

T = typing.TypeVar("T", bound=msgspec.Struct)


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
  """The content of a file: a record and its format version."""

  format_version: int
  record: msgspec.Raw


def to_json(record: msgspec.Struct) -> str:
  """Returns a record with its format version as JSON.

  Args:
    record: the structure; numbers that are not finite become null.
  """
  encoded = msgspec.json.encode(record, enc_hook=to_number)
  envelope = _Envelope(FORMAT_VERSION, msgspec.Raw(encoded))
  text = msgspec.json.format(msgspec.json.encode(envelope), indent=2)
  return text.decode() + "\n"


def from_json(text: str | bytes, kind: type[T]) -> T:
  """Returns the record of a JSON text.

  Args:
    text: a text from `to_json`.
    kind: type of the record.

  Raises:
    ValueError: the text has another format, version or type.
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


def read(path: pathlib.Path, kind: type[T], remedy: str) -> T:
  """Reads a record from a file.

  Args:
    path: path of the file.
    kind: type of the record.
    remedy: advice for the user if the file cannot be read.

  Raises:
    ValueError: the file cannot be read, or its record has another type.
  """
  try:
    return from_json(path.read_bytes(), kind)
  except (OSError, ValueError) as error:
    text = " ".join(str(error).split())  # its lines are joined
    raise ValueError(
      f"{str(path)!r} cannot be read as {kind.__name__} ({text}): {remedy}"
    ) from error


def to_number(value: typing.Any) -> int | float:
  """Returns a NumPy scalar as a Python number, for msgspec's encoders.

  Raises:
    TypeError: the value is no number.
  """
  if isinstance(value, numbers.Integral):
    return int(value)
  if isinstance(value, numbers.Real):
    return float(value)
  raise TypeError(
    f"{value!r} of type {type(value).__name__} is no number, so it has "
    "no place in a record: convert it to int or float first"
  )
