"""Holding: how long learning curves stay at a target that they have reached."""

import typing
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks import report
from benchmarks.curves import data

IN_A_ROW = 3  # evaluations, as `stop.evaluations` of presets with a target

# Environment steps from the first evaluation at the target on in which
# evaluations count, so that early and late runs are measured equally.
LATER_STEPS = 300_000

_SECTION = """\
## How runs held {target:g}

A value per seed, in the order of the seeds; -: not reached.

{table}

- *first*: environment steps until the first evaluation at the target;
  *three in a row*: until the third one in a row.
- *held*: share of the evaluations at the target, from there on, until
  {later:,} steps after the first one or the end of the run;
  *mean from the first on*: mean of the same evaluations."""


class Holding(typing.NamedTuple):
  """How one run reached a target, and how it held it.

  Attributes:
    first: environment steps of the first evaluation at the target; None: there
      was none, and the three values below are None, too.
    held: share of the evaluations at the target, from the first one on.
    later: mean return of all evaluations from the first one at the target on.
    in_a_row: environment steps of the evaluation that was the third in a row at
      the target; None: there was none.
    held_in_a_row: share of the evaluations at the target, from that one on.
  """

  first: float | None = None
  held: float | None = None
  later: float | None = None
  in_a_row: float | None = None
  held_in_a_row: float | None = None


def measure(
  env_steps: np.ndarray, returns: np.ndarray, target: float
) -> Holding:
  """Measures how a run reached a target, and how it held it.

  Args:
    env_steps: [N], environment steps of each evaluation, in their order.
    returns: [N], mean return of each evaluation.
    target: mean return that counts as reached.
  """
  reached = returns >= target
  if not reached.any():
    return Holding()
  first = int(reached.argmax())
  counts = env_steps <= env_steps[first] + LATER_STEPS
  env_steps, returns, reached = (
    x[counts] for x in (env_steps, returns, reached)
  )
  found = Holding(
    first=float(env_steps[first]),
    held=float(reached[first:].mean()),
    later=float(returns[first:].mean()),
  )
  rows = np.convolve(reached, np.ones(IN_A_ROW), "valid") == IN_A_ROW
  if not rows.any():
    return found
  third = int(rows.argmax()) + IN_A_ROW - 1
  return found._replace(
    in_a_row=float(env_steps[third]),
    held_in_a_row=float(reached[third:].mean()),
  )


def make_section(kept: Mapping[str, data.Saved], target: float) -> str:
  """Returns a markdown section with how each run held a target.

  Args:
    kept: saved runs by algorithm.
    target: mean return that counts as reached.
  """
  rows = []
  for name, saved in kept.items():
    found = [
      measure(x.env_steps, x.eval_return, target) for x in saved.curves()
    ]
    rows.append(
      {
        "algorithm": name,
        "seeds": _join(saved.seeds(), "d"),
        "first": _join([x.first for x in found], ",.0f"),
        "three in a row": _join([x.in_a_row for x in found], ",.0f"),
        "held": _join([x.held for x in found], ".2f"),
        "held from three in a row": _join(
          [x.held_in_a_row for x in found], ".2f"
        ),
        "mean from the first on": _join([x.later for x in found], ",.0f"),
      }
    )
  return _SECTION.format(
    target=target, table=report.make_table(rows), later=LATER_STEPS
  )


def _join(values: Sequence[float | None], form: str) -> str:
  """Returns the values of all seeds as the text of one cell."""
  return "; ".join("-" if x is None else format(x, form) for x in values)
