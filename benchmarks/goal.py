"""Goals: a benchmark's goals, as lines of a page and as a picture."""

import math
import pathlib
import textwrap
from collections.abc import Sequence

_REACHED, _MISSED = "#2f6f9f", "#c2571a"
_WIDEST = 8.0  # largest factor that is drawn; larger ones are drawn as this
_LABEL_WIDTH = 62  # characters


class Goal(str):
  """The line of a goal in a report, and how well the goal was reached.

  Attributes:
    factor: quality relative to the goal: 1 meets it, 2 is twice as good, 0.5 is
      half as good.
    label: the line without the verdict.
  """

  factor: float
  label: str

  def __new__(cls, label: str, factor: float, reached: bool) -> "Goal":
    """Makes the line from its parts."""
    goal = super().__new__(cls, verdict(label, reached))
    goal.factor, goal.label = factor, label
    return goal


def verdict(text: str, reached: bool) -> str:
  """Returns the line of a goal, which ends with whether it was reached.

  Args:
    text: the measured quantity and the goal, in words.
    reached: whether the goal was reached.
  """
  return f"{text}: {'reached' if reached else '**not reached**'}."


def at_least(text: str, measured: float, goal: float) -> Goal:
  """Makes the goal that a quantity is at least a number.

  Args:
    text: the measured quantity and the goal, in words.
    measured: the measured value, in any unit.
    goal: the goal in the same unit, above 0.
  """
  return Goal(text, measured / goal, measured >= goal)


def at_most(text: str, measured: float, goal: float) -> Goal:
  """Makes the goal that a quantity is at most a number.

  Args:
    text: the measured quantity and the goal, in words.
    measured: the measured value, in any unit, at least 0.
    goal: the goal in the same unit, above 0.
  """
  factor = goal / measured if measured > 0 else math.inf
  return Goal(text, factor, measured <= goal)


def draw(lines: Sequence[str], path: pathlib.Path) -> bool:
  """Draws the factors of goals as bars, and saves the picture as PNG.

  Args:
    lines: lines of goals, from the top; only those of type `Goal` are drawn.
    path: path of the PNG file, in an existing folder.

  Returns:
    Whether a picture was drawn; False: no line is a `Goal`.
  """
  goals = [line for line in lines if isinstance(line, Goal)]
  if not goals:
    return False
  from matplotlib import figure, ticker

  picture = figure.Figure(
    figsize=(9.6, 1.0 + 0.42 * len(goals)), dpi=150, layout="constrained"
  )
  axes = picture.subplots()
  for row, goal in enumerate(goals):
    color = _REACHED if goal.factor >= 1 else _MISSED
    times = min(_WIDEST, max(1 / _WIDEST, goal.factor))
    axes.barh(row, times - 1, left=1, height=0.6, color=color)
    right = times >= 1
    axes.annotate(
      _times(goal.factor),
      (times, row),
      xytext=(4 if right else -4, 0),
      textcoords="offset points",
      horizontalalignment="left" if right else "right",
      verticalalignment="center",
      fontsize=8,
      color=color,
    )
  axes.axvline(1, color="#333333", linewidth=1.2)
  axes.set_xscale("log")
  axes.set_xlim(0.7 / _WIDEST, _WIDEST / 0.7)
  axes.xaxis.set_major_locator(
    ticker.FixedLocator([1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8])
  )
  axes.xaxis.set_minor_locator(ticker.NullLocator())
  axes.xaxis.set_major_formatter(ticker.FuncFormatter(_tick))
  labels = [_wrapped(goal.label) for goal in goals]
  axes.set_yticks(range(len(goals)), labels, fontsize=7)
  axes.invert_yaxis()
  axes.set_xlabel("worse than the goal   |   better than the goal")
  axes.grid(axis="x", color="#e4e7ea", linewidth=0.8)
  axes.set_axisbelow(True)
  axes.spines[["top", "right", "left"]].set_visible(False)
  axes.tick_params(axis="y", length=0)
  picture.savefig(path, format="png")
  return True


def _wrapped(label: str) -> str:
  """Returns a label in lines: first the measured quantity, then the goal."""
  parts = label.replace(", goal ", ",\ngoal ").splitlines()
  return "\n".join(textwrap.fill(part, _LABEL_WIDTH) for part in parts)


def _times(factor: float) -> str:
  """Returns a bar's label: how many times better or worse than the goal."""
  times = max(factor, 1 / factor) if factor > 0 else math.inf
  if times > _WIDEST:
    return f"over {_WIDEST:g}x"
  return f"{times:.2f}x" if times < 1.1 else f"{times:.1f}x"


def _tick(times: float, position: int | None) -> str:
  """Returns the label of a tick of the axis of factors."""
  del position
  if times == 1:
    return "goal"
  return f"{times:g}x" if times > 1 else f"{1 / times:g}x"
