"""Formatting: texts of numbers. An unknown number is shown as '-'."""

import math
import numbers
import textwrap
import typing
from collections.abc import Sequence

UNKNOWN = "-"  # text in place of an unknown number


def to_finite(value: typing.Any) -> float | None:
  """Returns a value as a float, or None if it is not a finite number."""
  known = isinstance(value, numbers.Real) and math.isfinite(value)
  return float(value) if known else None


def count(value: typing.Any) -> str:
  """Formats a count without decimals, such as 1234567.0 as '1,234,567'."""
  number = to_finite(value)
  return UNKNOWN if number is None else f"{number:,.0f}"


def decimal(value: typing.Any) -> str:
  """Formats a number with two decimals, such as 1234.5 as '1,234.50'."""
  number = to_finite(value)
  return UNKNOWN if number is None else f"{number:,.2f}"


def rate(value: typing.Any) -> str:
  """Formats a rate with three significant digits, such as 3217.4 as '3,220'."""
  number = to_finite(value)
  if number is None:
    return UNKNOWN
  if abs(number) < 100:
    return f"{number:.3g}"
  digits = 2 - math.floor(math.log10(abs(number)))
  return f"{round(number, digits):,.0f}"


def metric(value: typing.Any) -> str:
  """Formats a number briefly, such as 0.00421 as '0.0042', and 1.02 as '1'."""
  number = to_finite(value)
  if number is None or abs(number) >= 10:
    return decimal(number)
  return f"{number:.2g}"


def duration(seconds: typing.Any) -> str:
  """Formats seconds as hours:minutes:seconds, such as 3725 as '1:02:05'."""
  number = to_finite(seconds)
  if number is None:
    return UNKNOWN
  minutes, whole = divmod(int(number), 60)
  return f"{minutes // 60}:{minutes % 60:02}:{whole:02}"


def wrap_row(label: str, text: str) -> list[str]:
  """Returns a label and its text in lines of at most 80 columns."""
  return textwrap.wrap(
    text,
    80,
    initial_indent=f"  {label:<14} ",
    subsequent_indent=" " * 17,
    break_on_hyphens=False,
  )


def sparkline(values: Sequence[float], ascii_only: bool = False) -> str:
  """Draws numbers as one line of bars, such as '▁▅█', or '-' without one."""
  finite = [x for x in values if math.isfinite(x)]
  if not finite:
    return UNKNOWN
  bars = "_.-=+*#@" if ascii_only else "▁▂▃▄▅▆▇█"
  low, high = min(finite), max(finite)
  step = (high - low) / (len(bars) - 1) or 1.0
  return "".join(bars[round((x - low) / step)] for x in finite)


def estimate(seconds: float) -> str:
  """Formats an estimated duration coarsely, such as 3725 s as '1 h 02 min'."""
  if seconds >= 3600:
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02} min"
  if seconds >= 100:
    return f"{round(seconds / 60)} min"
  return f"{math.ceil(seconds / 5) * 5} s"
