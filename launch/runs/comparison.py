"""Comparison: reads the curves of one run or of several, and draws them.

Runs whose configs differ only in the seed form a group, which has one line: the
mean over its runs.
"""

import collections
import contextlib
import io
import math
import os
import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from slipway.configs import fields
from slipway.launch.runs import curves, run_folder, statistics

if typing.TYPE_CHECKING:
  from matplotlib import figure

_POINTS = 200  # points per line
# Columns of curves.csv that are horizontal axes, with their labels.
_AXES = {
  "env_steps": "environment steps",
  "trainer_steps": "updates",
  "wall_s": "wall-clock time (s)",
}
# Distinguishable with the most common colour blindnesses: Okabe and Ito 2008.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
_TARGET_COLOR = "#6b7280"  # of the line at the target return


class Group(typing.NamedTuple):
  """Runs whose configs differ only in the seed.

  Attributes:
    name: name of the first run, or its path if another group's first run has
      the same name; with the number of seeds if there are more.
    curves: columns of each run's curves.csv, by name; see `curves.read`.
    folders: each run's folder, where it is known.
    values: repr of the config's values by field, without the seed, where they
      are known.
  """

  name: str
  curves: list[dict[str, np.ndarray]]
  folders: Sequence[run_folder.RunFolder] = ()
  values: Mapping[str, str] = {}

  @property
  def final_returns(self) -> np.ndarray:
    """Final return of each run, [R]; see `curves.final_return`."""
    return np.array(
      [
        curves.final_return(curves.get_progress(rows), rows["eval_return"])
        for rows in self.curves
      ]
    )


class Line(typing.NamedTuple):
  """The mean return of runs along one horizontal axis.

  Attributes:
    at: environment steps, updates or seconds of N points.  # [N]
    mean: mean return over the runs.  # [N]
    low: lower bound of the 95 % confidence interval of the mean, nan for a
      single run.  # [N]
    high: upper bound of the interval.  # [N]
  """

  at: np.ndarray
  mean: np.ndarray
  low: np.ndarray
  high: np.ndarray


def read(folders: Sequence[run_folder.RunFolder]) -> list[Group]:
  """Reads the curves of runs, and groups the runs by their configs.

  Args:
    folders: folders of runs, which may be active; one that is given twice
      counts once.

  Raises:
    ValueError: a run's files can't be read, or it has no evaluation yet.
  """
  unique = {folder.path.resolve(): folder for folder in folders}
  groups = [read_run(folder) for folder in unique.values()]
  for group in groups:
    if not len(group.curves[0]["eval_return"]):
      raise ValueError(
        f"run {str(group.folders[0].path)!r} has no evaluation yet, so it has "
        "no curve: leave it out, or wait for the first one"
      )
  return merge(groups)


def read_run(folder: run_folder.RunFolder) -> Group:
  """Reads the curves of one run, which may have no evaluation yet.

  Raises:
    ValueError: its config.json or curves.csv can't be read.
  """
  values = fields.flatten(folder.read_config())
  values.pop("seed", None)
  texts = {name: repr(value) for name, value in values.items()}
  rows = curves.read_evaluations(folder.curves_csv)
  return Group(folder.name, [rows], [folder], texts)


def merge(groups: Sequence[Group]) -> list[Group]:
  """Merges groups of one run with the same values, in the order of the first.

  Groups of the same name, such as 0-1 in two sweeps, get their runs' paths.
  """
  merged = collections.defaultdict(list)
  for group in groups:
    merged[tuple(sorted(group.values.items()))].append(group)
  names = collections.Counter(same[0].name for same in merged.values())
  found = []
  for same in merged.values():
    folders = [x.folders[0] for x in same]
    name = same[0].name
    if names[name] > 1:
      name = str(folders[0].path)
    if len(same) > 1:
      name = f"{name} ({len(same)} seeds)"
    rows = [x.curves[0] for x in same]
    found.append(Group(name, rows, folders, same[0].values))
  return found


@contextlib.contextmanager
def default_style() -> Iterator[None]:
  """Draws the pictures of the block, or function, in matplotlib's own style.

  The user's `matplotlibrc` may need LaTeX, and a notebook's variable MPLBACKEND
  names a backend that its programs may not have.
  """
  backend = os.environ.pop("MPLBACKEND", None)
  try:
    import matplotlib
  finally:
    if backend is not None:
      os.environ["MPLBACKEND"] = backend
  with matplotlib.rc_context():
    matplotlib.rcdefaults()
    yield


@default_style()
def draw(
  groups: Sequence[Group], file_format: str = "png", target: float = math.inf
) -> bytes:
  """Draws returns in the default style; see `draw_as_styled`."""
  return draw_as_styled(groups, file_format, target)


def draw_as_styled(
  groups: Sequence[Group], file_format: str = "png", target: float = math.inf
) -> bytes:
  """Draws returns against environment steps, updates and wall-clock time.

  A group of several runs is drawn where all of them have values, with the 95 %
  confidence interval of its mean. Where its runs have no common range, each is
  drawn by its own points.

  Args:
    groups: at least one group.
    file_format: 'png', 'pdf' or 'svg'.
    target: mean return at which there is a line, or infinity.

  Returns:
    The picture, as the bytes of a file.
  """
  # Imported late, because the import takes a second.
  from matplotlib import figure

  picture = figure.Figure(figsize=(12.6, 4.2), dpi=150, layout="constrained")
  draw_panels(picture, groups)
  if math.isfinite(target):
    for axes in picture.axes:
      axes.axhline(target, color=_TARGET_COLOR, linestyle=(0, (5, 3)))
  return to_bytes(picture, file_format)


def to_bytes(picture: "figure.Figure", file_format: str = "png") -> bytes:
  """Returns a picture as the bytes of a file: 'png', 'pdf' or 'svg'."""
  file = io.BytesIO()
  picture.savefig(file, format=file_format)
  return file.getvalue()


def draw_panels(picture: "figure.FigureBase", groups: Sequence[Group]) -> None:
  """Draws the panels and the legend of `draw` into a picture or a part of one.

  Args:
    picture: the picture, in a constrained layout.
    groups: at least one group.
  """
  from matplotlib import lines as lines_lib
  from matplotlib import ticker

  panels = picture.subplots(1, len(_AXES), sharey=True)
  for axes, (column, label) in zip(panels, _AXES.items(), strict=True):
    for index, group in enumerate(groups):
      lines = make_lines(group, column)
      has_line = len(lines) == 1 and len(np.unique(lines[0].at)) > 1
      for line in lines:
        axes.fill_between(
          *(line.at, line.low, line.high),
          color=color(index),
          alpha=0.18,
          linewidth=0,
        )
        axes.plot(
          *(line.at, line.mean),
          color=color(index),
          linestyle=_line_style(index),
          linewidth=1.6 if has_line else 0.8,
          marker="" if has_line else "o",
          markersize=3,
        )
    axes.set_xlabel(label)
    axes.set_xlim(left=0)
    axes.grid(axis="y", color="#e4e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
  panels[0].set_ylabel("mean return of an evaluation")
  picture.legend(
    [
      lines_lib.Line2D([], [], color=color(index), linestyle=_line_style(index))
      for index in range(len(groups))
    ],
    # With names, since matplotlib itself leaves out those that begin with '_'.
    [group.name for group in groups],
    loc="outside lower center",
    ncols=min(len(groups), 3),
    frameon=False,
    fontsize=9,
  )


def color(index: int) -> str:
  """Returns the color of the group with an index."""
  return _COLORS[index % len(_COLORS)]


def _line_style(index: int) -> typing.Literal["-", "--", ":", "-."]:
  """Returns the style of the line of the group with an index."""
  return ("-", "--", ":", "-.")[index // len(_COLORS) % 4]


def make_line(
  runs: Sequence[tuple[np.ndarray, np.ndarray]], points: int
) -> Line:
  """Computes the mean return of runs where all of them have values.

  Args:
    runs: per run, environment steps, updates or seconds, and mean returns, of
      its evaluations, in ascending order.
    points: N, the number of points of the line.

  Returns:
    The line, without points if no value is in the range of all runs.
  """
  start = max(x[0] for x, _ in runs)
  end = min(x[-1] for x, _ in runs)
  at = np.linspace(start, end, points if start <= end else 0)
  lines = np.stack([np.interp(at, x, y) for x, y in runs])  # [R, points]
  return Line(
    at, lines.mean(axis=0), *statistics.interval(statistics.mean, lines)
  )


def make_lines(group: Group, column: str, points: int = _POINTS) -> list[Line]:
  """Computes a group's mean return along an axis; see `make_line`.

  Args:
    column: the axis, a column of curves.csv: env_steps, trainer_steps or
      wall_s.
    points: number of points of a line of several runs.

  Returns:
    One line; or one for each run, by its own points, if they have no common
    range.
  """
  # The count of updates falls where a trainer has restarted from a snapshot.
  # The line then stays at the highest count until the trainer has passed it.
  runs = [
    (np.fmax.accumulate(rows[column]), rows["eval_return"])
    for rows in group.curves
  ]
  if len(runs) > 1:
    line = make_line(runs, points)
    if len(np.unique(line.at)) > 1:
      return [line]
  return [
    Line(at, mean, *statistics.interval(statistics.mean, mean[None]))
    for at, mean in runs
  ]
