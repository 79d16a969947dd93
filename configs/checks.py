"""Checks: ranges of config fields, with the consequence of other values."""

import math
import typing
from collections.abc import Callable, Sequence


class Check(typing.NamedTuple):
  """The values that a field may have.

  Attributes:
    accepts: function that returns whether a value of the field's type is valid.
    wanted: the range in words, which follow 'must be' in the error message.
    consequence: a clause with the consequence of an invalid value.
    invalid: an invalid value, for tests.
    maximum: the largest value that a machine can handle.
    beyond: a clause with the consequence of a larger value.
  """

  accepts: Callable[[typing.Any], bool]
  wanted: str
  consequence: str
  invalid: typing.Any
  maximum: float = math.inf
  beyond: str = ""

  def up_to(self, maximum: float, beyond: str) -> "Check":
    """Returns the same check with an upper bound."""
    return self._replace(maximum=maximum, beyond=beyond)


def at_least(minimum: float, consequence: str, note: str = "") -> Check:
  """Requires `minimum` or more; `note` explains a special value."""
  wanted = f"at least {minimum}{_in_brackets(note)}"
  return Check(lambda x: x >= minimum, wanted, consequence, invalid=minimum - 1)


def at_most(maximum: float, consequence: str) -> Check:
  """Requires `maximum` or less."""
  return Check(
    lambda x: x <= maximum,
    f"at most {maximum}",
    consequence,
    invalid=maximum + 1,
  )


def above(bound: float, consequence: str) -> Check:
  """Requires more than `bound`."""
  return Check(
    lambda x: x > bound, f"above {bound}", consequence, invalid=bound
  )


def within(low: float, high: float, consequence: str, note: str = "") -> Check:
  """Requires a value in [low, high]; `note` explains a special value."""
  wanted = f"in [{low}, {high}]{_in_brackets(note)}"
  return Check(
    lambda x: low <= x <= high, wanted, consequence, invalid=high + 1
  )


def one_of(choices: Sequence[str], consequence: str) -> Check:
  """Requires one of `choices`."""
  wanted = f"one of {', '.join(map(repr, choices))}"
  return Check(
    lambda x: x in choices, wanted, consequence, invalid=f"not {choices[0]}"
  )


def is_own(name: str) -> bool:
  """Returns whether a name is 'module:Name', which refers to user code."""
  return ":" in name


def part(choices: Sequence[str], consequence: str) -> Check:
  """Requires one of `choices`, or 'module:name' of the user's own code."""
  wanted = f"one of {', '.join(map(repr, choices))}, or 'module:name'"
  return Check(
    lambda x: x in choices or is_own(x),
    wanted,
    consequence,
    invalid="nothing",
  )


def matching(
  accepts: Callable[[typing.Any], bool],
  wanted: str,
  consequence: str,
  invalid: typing.Any,
) -> Check:
  """Requires a value that `accepts` returns true for.

  Args:
    accepts: function that returns whether a value is valid.
    wanted: the condition in words, which follow 'must be'.
    consequence: a clause with the consequence of an invalid value.
    invalid: an invalid value, for tests.
  """
  return Check(accepts, wanted, consequence, invalid)


def _in_brackets(note: str) -> str:
  return f" ({note})" if note else ""
