"""Picture of `scaling`: speed, and memory by role, by number of workers."""

import pathlib
from collections.abc import Sequence

from benchmarks import report

_BLUE, _ORANGE = "#2f6f9f", "#c2571a"
# From the bottom; all other roles share one colour.
_PARTS = (
  ("trainer", ("trainer",), "#c2571a"),
  ("workers", ("worker",), "#2f6f9f"),
  ("fork server", ("fork server",), "#7f8c97"),
  (
    "launcher, proxy, evaluator",
    ("launcher", "proxy", "evaluator"),
    "#c9d1d8",
  ),
)


def draw(raw: Sequence[report.Row], path: pathlib.Path) -> None:
  """Draws speed, and memory by role, against the number of workers.

  Args:
    raw: rows of the benchmark `scaling`, whose medians are drawn.
    path: path of the PNG file; its folder is created if needed.
  """
  from matplotlib import figure, ticker

  path.parent.mkdir(parents=True, exist_ok=True)
  counts = sorted({row["workers"] for row in raw})
  picture = figure.Figure(figsize=(9.6, 3.6), dpi=150, layout="constrained")
  steps, updates, memory = picture.subplots(1, 3)
  places = range(len(counts))
  for axes, column, title, color in (
    (steps, "env_steps_per_s", "environment steps/s", _BLUE),
    (updates, "trainer_steps_per_s", "updates/s", _ORANGE),
  ):
    medians = [report.median(raw, column, workers=count) for count in counts]
    axes.plot(places, medians, color=color, marker="o", linewidth=1.6)
    axes.plot(
      [counts.index(row["workers"]) for row in raw],
      [row[column] for row in raw],
      color=color,
      marker="o",
      markersize=3,
      linestyle="",
      alpha=0.35,
    )
    axes.set_title(title, fontsize=10)
    axes.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
  _stack(memory, raw, counts)
  memory.set_title("memory of all processes, MB of PSS", fontsize=10)
  memory.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
  for axes in (steps, updates, memory):
    axes.set_xticks(places, [str(count) for count in counts])
    axes.set_xlabel("workers")
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
    axes.grid(axis="y", color="#e4e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
  picture.savefig(path, format="png")


def _stack(axes, raw: Sequence[report.Row], counts: Sequence[int]) -> None:
  """Draws the memory of all roles as stacked bars."""
  bottoms = [0.0] * len(counts)
  for label, roles, color in _PARTS:
    heights = [
      sum(_median_mb(raw, role, count) for role in roles) for count in counts
    ]
    axes.bar(
      range(len(counts)),
      heights,
      bottom=bottoms,
      width=0.6,
      color=color,
      label=label,
    )
    bottoms = [b + h for b, h in zip(bottoms, heights, strict=True)]
  for place, total in enumerate(bottoms):
    axes.annotate(
      f"{total:,.0f}",
      (place, total),
      xytext=(0, 2),
      textcoords="offset points",
      horizontalalignment="center",
      fontsize=8,
    )
  axes.margins(y=0.5)
  axes.legend(
    *(handles[::-1] for handles in axes.get_legend_handles_labels()),
    loc="upper left",
    frameon=False,
    fontsize=7,
  )


def _median_mb(raw: Sequence[report.Row], role: str, workers: int) -> float:
  """Returns a role's median memory in MB; 0 if runs had no such process."""
  column = f"{role}_pss_mb"
  known = [row for row in raw if row[column] is not None]
  if not any(row["workers"] == workers for row in known):
    return 0.0
  return report.median(known, column, workers=workers)
