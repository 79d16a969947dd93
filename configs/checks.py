"""Checks: valid values of config fields, and error messages for other values.

Each function returns a `Check`, which is one argument of a `fields.Field`. Its
`consequence` is a clause that states what follows from an invalid value, and
its `note` explains a special value, such as '0: no limit'.
"""

import math
import typing
from collections.abc import Callable, Sequence


class Check(typing.NamedTuple):
  """The valid values of a config field, and the error message for others.

  The message is 'config.FIELD=VALUE must be `wanted`: `consequence`'.

  Attributes:
    accepts: function that returns whether a value of the field's type is valid.
    wanted: phrase for the valid values, such as 'at least 1'.
    consequence: clause that states the consequence of an invalid value.
    invalid: an example of an invalid value, which tests use.
    most: the largest value that a run can handle; inf: no maximum.
    choices: the valid texts, of which the message suggests a similar one.
  """

  accepts: Callable[[typing.Any], bool]
  wanted: str
  consequence: str
  invalid: typing.Any
  most: float = math.inf
  choices: Sequence[str] = ()


def at_least(
  minimum: float, consequence: str, note: str = "", most: float = math.inf
) -> Check:
  """Returns the check that a value is in [minimum, most]."""
  wanted = f"at least {minimum}{_in_brackets(note)}"
  return Check(lambda x: x >= minimum, wanted, consequence, minimum - 1, most)


def below(bound: float, consequence: str) -> Check:
  """Returns the check that a value is less than `bound`."""
  return Check(lambda x: x < bound, f"below {bound}", consequence, bound)


def above(bound: float, consequence: str, most: float = math.inf) -> Check:
  """Returns the check that a value is above `bound`, and at most `most`."""
  return Check(lambda x: x > bound, f"above {bound}", consequence, bound, most)


def within(low: float, high: float, consequence: str, note: str = "") -> Check:
  """Returns the check that a value is in [low, high]."""
  wanted = f"in [{low}, {high}]{_in_brackets(note)}"
  return Check(lambda x: low <= x <= high, wanted, consequence, high + 1)


def one_of(
  choices: Sequence[str], consequence: str, or_user_code: bool = False
) -> Check:
  """Returns the check that a value is one of `choices`.

  Args:
    choices: the valid values; built-in names have no colon.
    or_user_code: whether 'module:name' of the user's own code is valid, too.
  """
  own = ", or 'module:name'" if or_user_code else ""
  return Check(
    lambda x: x in choices or (or_user_code and is_user_code(x)),
    f"one of {', '.join(map(repr, choices))}{own}",
    consequence,
    invalid=f"not {choices[0]}",
    choices=choices,
  )


def is_user_code(name: str) -> bool:
  """Returns whether a name, 'module:Name', is that of the user's own code."""
  return ":" in name


def _in_brackets(note: str) -> str:
  """Returns ' (note)' for the end of a phrase, or '' for an empty note."""
  return f" ({note})" if note else ""
