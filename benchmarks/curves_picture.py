"""The picture of `curves`: mean and interval over seeds, all algorithms."""

import math
import pathlib
import typing
from collections.abc import Mapping, Sequence

import numpy as np

if typing.TYPE_CHECKING:
  from benchmarks import curves as curves_lib

_POINTS = 100  # of a line
_CONFIDENCE = 0.95


def draw(
  kept: Mapping[str, Sequence["curves_lib.Curve"]],
  env_steps: int,
  path: pathlib.Path,
) -> None:
  """Draws return against environment steps and wall-clock.

  Args:
    kept: curves of each algorithm, one a seed.
    env_steps: at which runs end.
    path: of the PNG.
  """
  from matplotlib import colormaps, figure, ticker

  picture = figure.Figure(figsize=(10.4, 5.0), dpi=150, layout="constrained")
  by_steps, by_time = picture.subplots(1, 2, sharey=True)
  colors = colormaps["tab20"].colors  # pyright: ignore[reportAttributeAccessIssue]
  for index, (name, curves) in enumerate(kept.items()):
    shortest_s = min(curve.wall_s[-1] for curve in curves)
    for axes, column, end in (
      (by_steps, "env_steps", env_steps),
      (by_time, "wall_s", shortest_s),
    ):
      start = max(getattr(curve, column)[0] for curve in curves)
      grid = np.linspace(start, max(start, end), _POINTS)
      lines = np.stack(
        [
          np.interp(grid, getattr(curve, column), curve.eval_return)
          for curve in curves
        ]
      )  # [seeds, points]
      mean, half = lines.mean(axis=0), half_interval(lines)
      color = colors[index % len(colors)]
      axes.plot(grid, mean, color=color, linewidth=1.6, label=name)
      axes.fill_between(
        grid, mean - half, mean + half, color=color, alpha=0.13, linewidth=0
      )
  by_steps.set_xlabel("environment steps, all workers'")
  by_steps.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
  by_time.set_xlabel("seconds since the command")
  by_steps.set_ylabel("mean return of an evaluation")
  for axes in (by_steps, by_time):
    axes.set_xlim(left=0)
    axes.grid(axis="y", color="#e4e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
  handles, labels = by_steps.get_legend_handles_labels()
  picture.legend(
    handles, labels, loc="outside lower center", ncols=6, frameon=False,
    fontsize=9,
  )  # fmt: skip
  picture.savefig(path, format="png")


def half_interval(lines: np.ndarray) -> np.ndarray:
  """Half of the interval of the mean [N] of lines [seeds, N]."""
  from scipy import stats

  seeds = len(lines)
  if seeds < 2:
    return np.zeros(lines.shape[1])
  quantile = stats.t.ppf((1 + _CONFIDENCE) / 2, seeds - 1)
  return quantile * lines.std(axis=0, ddof=1) / math.sqrt(seeds)
