"""Pictures: means and confidence intervals of curves over seeds."""

import pathlib
from collections.abc import Mapping, Sequence

from benchmarks.curves import data, published
from slipway.launch.runs import comparison

_ABREAST = 3  # algorithms per row of the picture, at most
_COLOR, _OTHERS, _PUBLISHED = "#1f6fb4", "#c9ced4", "#c2571a"
_POINTS = 100  # points per line


def draw(
  kept: Mapping[str, Sequence[data.Curve]],
  path: pathlib.Path,
  others: Sequence[published.Published],
) -> None:
  """Draws returns against environment steps and wall-clock time.

  Each algorithm has two panels, with the means of all others in the background.

  Args:
    kept: curves of each algorithm, one per seed.
    path: path of the PNG file.
    others: published returns, which are marked at their environment steps.
  """
  from matplotlib import figure, ticker

  by_steps = {name: _line(x, "env_steps") for name, x in kept.items()}
  by_time = {name: _line(x, "wall_s") for name, x in kept.items()}
  abreast = min(_ABREAST, len(kept))
  rows = -(-len(kept) // abreast)
  picture = figure.Figure(
    figsize=(4.6 * abreast, 0.4 + 2.1 * rows), dpi=110, layout="constrained"
  )
  panels = picture.subplots(
    rows, 2 * abreast, sharey=True, sharex=False, squeeze=False
  )
  flat = panels.flatten()
  for index, name in enumerate(kept):
    for axes, lines in zip(
      flat[2 * index : 2 * index + 2], (by_steps, by_time), strict=True
    ):
      for other, line in lines.items():
        if other != name:
          axes.plot(line.at, line.mean, color=_OTHERS, linewidth=0.7)
      own = lines[name]
      axes.fill_between(
        own.at, own.low, own.high, color=_COLOR, alpha=0.22, linewidth=0
      )
      axes.plot(own.at, own.mean, color=_COLOR, linewidth=1.8)
      axes.set_xlim(left=0)
      axes.grid(axis="y", color="#e4e7ea", linewidth=0.8)
      axes.set_axisbelow(True)
      axes.spines[["top", "right"]].set_visible(False)
      axes.tick_params(labelsize=8)
    steps, seconds = flat[2 * index : 2 * index + 2]
    for entry in others:
      for at, (low, high) in entry.returns.items():
        steps.plot(
          (at, at), (low, high), color=_PUBLISHED, linewidth=1.5, marker="_"
        )
    steps.set_title(name, loc="left", fontsize=10, fontweight="bold")
    steps.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
    steps.set_xlabel(
      "environment steps" + (" (-: published)" if others else ""), fontsize=8
    )
    seconds.set_xlabel("seconds", fontsize=8)
  for axes in flat[2 * len(kept) :]:
    axes.set_visible(False)
  picture.supylabel("mean return of an evaluation", fontsize=9)
  picture.savefig(path, format="png")


def _line(curves: Sequence[data.Curve], column: str) -> comparison.Line:
  """Computes an algorithm's mean curve where all seeds have values.

  Args:
    curves: one curve per seed.
    column: 'env_steps' or 'wall_s', the horizontal axis.
  """
  runs = [(getattr(curve, column), curve.eval_return) for curve in curves]
  return comparison.make_line(runs, _POINTS)
