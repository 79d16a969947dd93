"""Checks: the range of a config field, with what follows outside of it."""

import math
import typing
from collections.abc import Callable, Sequence


class Check(typing.NamedTuple):
  """The values that a field may have.

  Attributes:
    accepts: whether a value of the field's type is in range.
    wanted: the range in words, which follow 'must be'.
    consequence: a clause that says what would follow from another value.
    example: a value that is out of range.
    maximum: the largest value that a machine can serve.
    beyond: a clause that says what would follow from a larger one.
  """

  accepts: Callable[[typing.Any], bool]
  wanted: str
  consequence: str
  example: typing.Any
  maximum: float = math.inf
  beyond: str = ""

  def up_to(self, maximum: float, beyond: str) -> "Check":
    """Returns the same check with an upper bound."""
    return self._replace(maximum=maximum, beyond=beyond)


def at_least(minimum: float, consequence: str, note: str = "") -> Check:
  """The value is `minimum` or more; `note` explains a special value."""
  wanted = f"at least {minimum}{_in_brackets(note)}"
  return Check(lambda x: x >= minimum, wanted, consequence, minimum - 1)


def at_most(maximum: float, consequence: str) -> Check:
  """The value is `maximum` or less."""
  return Check(
    lambda x: x <= maximum, f"at most {maximum}", consequence, maximum + 1
  )


def above(bound: float, consequence: str) -> Check:
  """The value is more than `bound`."""
  return Check(lambda x: x > bound, f"above {bound}", consequence, bound)


def within(low: float, high: float, consequence: str, note: str = "") -> Check:
  """The value is in [low, high]; `note` explains a special value."""
  wanted = f"in [{low}, {high}]{_in_brackets(note)}"
  return Check(lambda x: low <= x <= high, wanted, consequence, high + 1)


def one_of(choices: Sequence[str], consequence: str) -> Check:
  """The value is one of a few words."""
  wanted = f"one of {', '.join(map(repr, choices))}"
  return Check(lambda x: x in choices, wanted, consequence, f"not {choices[0]}")


def is_own(name: str) -> bool:
  """Whether a name is 'module:Name', of a part of the user's."""
  return ":" in name


def part(choices: Sequence[str], consequence: str) -> Check:
  """The value names a built-in part, or one of the user's: 'module:name'."""
  wanted = f"one of {', '.join(map(repr, choices))}, or 'module:name'"
  return Check(
    lambda x: x in choices or is_own(x), wanted, consequence, "nothing"
  )


def matching(
  accepts: Callable[[typing.Any], bool],
  wanted: str,
  consequence: str,
  example: typing.Any,
) -> Check:
  """The value fulfils a condition of its own.

  Args:
    accepts: the condition.
    wanted: the condition in words, which follow 'must be'.
    consequence: a clause that says what would follow from another value.
    example: a value that does not fulfil it.
  """
  return Check(accepts, wanted, consequence, example)


def _in_brackets(note: str) -> str:
  return f" ({note})" if note else ""
