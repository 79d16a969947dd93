"""Parts of a user's own, which a config names as 'module:Name'."""

import difflib
import importlib
import inspect
import typing
from collections.abc import Collection, Iterable


def is_own(name: str) -> bool:
  """Whether a name is 'module:Name', and not that of a built-in part."""
  return ":" in name


def load(field: str, name: str, wanted: str) -> typing.Any:
  """Imports a part.

  Args:
    field: that names it, such as 'config.agent'.
    name: 'module:Name'; the module is found as Python's imports are, and in the
      working directory of the command.
    wanted: what the name has to be, for the message of an error.

  Raises:
    ValueError: one line: it can't be imported.
  """
  module, _, attribute = name.partition(":")
  try:
    return getattr(importlib.import_module(module), attribute)
  # No module has the name '', and none is relative to another.
  except (ImportError, AttributeError, TypeError, ValueError) as error:
    said = " ".join(str(error).split())
    raise ValueError(
      f"{field}={name!r} can't be imported ({said}), so nothing could run: "
      f"give 'module:Name' of {wanted}, in a module on the Python path"
    ) from error


def check_members(
  field: str,
  name: str,
  part: typing.Any,
  protocol: type,
  optional: Collection[str] = (),
) -> None:
  """Checks that a part has all that a protocol declares.

  Args:
    field: that names it.
    name: 'module:Name'.
    part: what was imported.
    protocol: a `typing.Protocol`.
    optional: members that not every part has.

  Raises:
    ValueError: one line with what is missing.
  """
  declared = [
    member
    for member, value in vars(protocol).items()
    if not member.startswith("_")
    and member not in optional
    and (inspect.isfunction(value) or isinstance(value, property))
  ]
  missing = [member for member in declared if not hasattr(part, member)]
  if missing:
    raise ValueError(
      f"{field}={name!r} lacks {', '.join(missing)}, so nothing could run: see "
      f"{protocol.__module__}.{protocol.__qualname__}"
    )


def advise(name: str, known: Iterable[str]) -> str:
  """Returns what to do about a part that does not exist.

  Args:
    name: that is unknown.
    known: names of the built-in parts.
  """
  known = list(known)
  choices = f"give one of {', '.join(known)}, or 'module:Name' of your own"
  near = difflib.get_close_matches(name, known, n=1)
  return f"did you mean {near[0]!r}? {choices}" if near else choices
