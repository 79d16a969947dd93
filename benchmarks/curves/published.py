"""Returns that others have published, beside curves at equal steps."""

import dataclasses
from collections.abc import Mapping, Sequence

from benchmarks import report
from benchmarks.curves import data
from slipway.launch.runs import curves as run_curves

_SECTION = """\
## Published returns at equal environment steps

The lowest and highest seed. Rows in italics are published; the others are runs
of this page, with the mean of the evaluations in the tenth before those steps;
-: they ended earlier.

{table}

{sources}"""

# Environment steps of the published returns below.
_STEPS = (500_000, 1_000_000, 2_000_000)


@dataclasses.dataclass(frozen=True)
class Published:
  """Returns of an algorithm on a task, measured by others.

  Attributes:
    name: the algorithm, and who measured it.
    source: one sentence in markdown: where the returns are from, and how they
      were measured differently.
    returns: lowest and highest return by environment steps.
  """

  name: str
  source: str
  returns: Mapping[int, tuple[float, float]]


def make_section(
  kept: Mapping[str, data.Saved], published: Sequence[Published]
) -> str:
  """Returns the section that compares runs with published returns, in markdown.

  Args:
    kept: saved runs by algorithm.
    published: returns of at least one algorithm.
  """
  at = sorted({steps for entry in published for steps in entry.returns})
  found = {
    f"*{entry.name}*": [entry.returns.get(steps) for steps in at]
    for entry in published
  }
  for name, saved in kept.items():
    found[name] = [_measure(saved.curves(), steps) for steps in at]
  columns = ["algorithm", *(f"{steps:,} steps" for steps in at)]
  rows = [
    dict(zip(columns, [name, *map(_format, cells)], strict=True))
    for name, cells in found.items()
  ]
  return _SECTION.format(
    table=report.make_table(rows),
    sources="\n".join(f"- *{x.name}*: {x.source}" for x in published),
  )


def _measure(
  curves: Sequence[data.Curve], steps: int
) -> tuple[float, float] | None:
  """Returns the lowest and highest return of runs at environment steps.

  Runs that ended by more than a tenth of the steps earlier count as too short.

  Args:
    curves: one curve per seed.
    steps: environment steps.

  Returns:
    None if a run is too short.
  """
  found = []
  for curve in curves:
    if curve.env_steps[-1] < 0.9 * steps:
      return None
    until = curve.env_steps <= steps
    found.append(
      run_curves.final_return(curve.env_steps[until], curve.eval_return[until])
    )
  return min(found), max(found)


def _format(bounds: tuple[float, float] | None) -> str:
  """Returns 'LOWEST to HIGHEST', one number if they are equal, or '-'."""
  if bounds is None:
    return "-"
  return " to ".join(dict.fromkeys(f"{bound:,.1f}" for bound in bounds))


def _minatar(*returns: float) -> tuple[Published, ...]:
  """Returns DQN's returns on a MinAtar game, at each of `_STEPS`.

  Args:
    returns: means of 30 seeds, read from the picture.
  """
  return (
    Published(
      "DQN, Young and Tian 2019",
      "[MinAtar](https://arxiv.org/abs/1903.03176), figure 2, read from the "
      "picture: the mean of 30 seeds, of training episodes with an epsilon of "
      "0.1. It has an update per step, this preset one per four steps, and all "
      "six actions, this preset the game's own.",
      {at: (value, value) for at, value in zip(_STEPS, returns, strict=True)},
    ),
  )


ASTERIX = _minatar(1.1, 7.1, 14.3)
BREAKOUT = _minatar(8.3, 9.3, 9.7)
FREEWAY = _minatar(33.2, 47.7, 50.7)
SEAQUEST = _minatar(0.9, 1.0, 5.0)
SPACE_INVADERS = _minatar(28.1, 32.8, 41.1)


def _dopamine(name: str, *returns: tuple[float, float]) -> Published:
  """Returns the returns of Dopamine's agent on Breakout, at each of `_STEPS`.

  Args:
    name: name of the agent.
    returns: lowest and highest of five seeds.
  """
  return Published(
    f"{name}, Dopamine",
    "[baselines](https://github.com/google/dopamine/tree/master/baselines), "
    "breakout.json: five seeds, the training episodes of the 250,000 steps "
    "before, with an epsilon of 0.01.",
    dict(zip(_STEPS, returns, strict=True)),
  )


ATARI_BREAKOUT = (
  _dopamine("DQN", (2.8, 3.3), (5.9, 7.5), (14.1, 19.0)),
  _dopamine("DQN (Adam + MSE in JAX)", (6.4, 6.6), (18.4, 20.0), (35.0, 42.3)),
  _dopamine("Rainbow", (4.1, 5.1), (15.3, 16.0), (30.2, 34.1)),
)
