"""Checks: valid values of config fields, and error messages for other values.

Each function returns a `Check`, which is one argument of a `fields.Field`.
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
    maximum: the largest value that a machine can handle; inf: no maximum.
    beyond: clause that states the consequence of a value above `maximum`.
    choices: the valid texts, of which the message suggests a similar one.
  """

  accepts: Callable[[typing.Any], bool]
  wanted: str
  consequence: str
  invalid: typing.Any
  maximum: float = math.inf
  beyond: str = ""
  choices: Sequence[str] = ()

  def up_to(self, maximum: float, beyond: str) -> "Check":
    """Returns this check with an upper bound.

    Args:
      maximum: the largest value that a machine can handle.
      beyond: clause that states the consequence of a larger value.
    """
    return self._replace(maximum=maximum, beyond=beyond)


def at_least(minimum: float, consequence: str, note: str = "") -> Check:
  """Returns the check that a value is at least `minimum`.

  Args:
    minimum: the smallest valid value.
    consequence: clause that states the consequence of a smaller value.
    note: explanation of a special value, such as '0: no limit'.
  """
  wanted = f"at least {minimum}{_in_brackets(note)}"
  return Check(lambda x: x >= minimum, wanted, consequence, invalid=minimum - 1)


def below(bound: float, consequence: str) -> Check:
  """Returns the check that a value is less than `bound`.

  Args:
    bound: the smallest invalid value.
    consequence: clause that states the consequence of an invalid value.
  """
  return Check(
    lambda x: x < bound, f"below {bound}", consequence, invalid=bound
  )


def above(bound: float, consequence: str) -> Check:
  """Returns the check that a value is greater than `bound`.

  Args:
    bound: the largest invalid value.
    consequence: clause that states the consequence of an invalid value.
  """
  return Check(
    lambda x: x > bound, f"above {bound}", consequence, invalid=bound
  )


def within(low: float, high: float, consequence: str, note: str = "") -> Check:
  """Returns the check that a value is in [low, high].

  Args:
    low: the smallest valid value.
    high: the largest valid value.
    consequence: clause that states the consequence of an invalid value.
    note: explanation of a special value, such as '0: no bonus'.
  """
  wanted = f"in [{low}, {high}]{_in_brackets(note)}"
  return Check(
    lambda x: low <= x <= high, wanted, consequence, invalid=high + 1
  )


def one_of(choices: Sequence[str], consequence: str) -> Check:
  """Returns the check that a value is one of `choices`.

  Args:
    choices: the valid values.
    consequence: clause that states the consequence of another value.
  """
  wanted = f"one of {', '.join(map(repr, choices))}"
  return Check(
    lambda x: x in choices,
    wanted,
    consequence,
    invalid=f"not {choices[0]}",
    choices=choices,
  )


def is_user_code(name: str) -> bool:
  """Returns whether a name has the form 'module:Name' of the user's own code.

  Names of built-in objects have no colon.
  """
  return ":" in name


def one_of_or_user_code(choices: Sequence[str], consequence: str) -> Check:
  """Returns the check that a value is a choice, or names the user's own code.

  The user's own code has names of the form 'module:name'.

  Args:
    choices: the valid names of built-in objects, which have no module.
    consequence: clause that states the consequence of another value.
  """
  wanted = f"one of {', '.join(map(repr, choices))}, or 'module:name'"
  return Check(
    lambda x: x in choices or is_user_code(x),
    wanted,
    consequence,
    invalid="nothing",
    choices=choices,
  )


def matching(
  accepts: Callable[[typing.Any], bool],
  wanted: str,
  consequence: str,
  invalid: typing.Any,
) -> Check:
  """Returns the check that a function accepts a value.

  Args:
    accepts: function that returns whether a value of the field is valid.
    wanted: phrase for the valid values, which follows 'must be' in the error.
    consequence: clause that states the consequence of an invalid value.
    invalid: an example of an invalid value, which tests use.
  """
  return Check(accepts, wanted, consequence, invalid)


def _in_brackets(note: str) -> str:
  """Returns ' (note)' for the end of a phrase, or '' for an empty note."""
  return f" ({note})" if note else ""
