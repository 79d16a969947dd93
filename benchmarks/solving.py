"""Benchmarks `cartpole` and `pong_solved`: seconds until a task is solved."""

import dataclasses
import math
import pathlib
import statistics
import tempfile

import numpy as np

from benchmarks import goal, report, whole_run
from slipway.launch.checks import overrides as overrides_lib
from slipway.launch.runs import curves

_METHOD = """\
`{command} --config.seed=S`
for {seeds}, as anyone would run it: all processes and the evaluator on the same
machine. A run is solved when the mean returns of {evaluations} evaluations in a
row ({episodes} greedy episodes each) reach {target:g}, which ends it; otherwise
it ends after {limit_s:,.0f} s. Seconds count from the command, imports and
start-up included; start-up is until the first update."""

_PART_SOLVED_GOAL = 0.9


@dataclasses.dataclass(frozen=True)
class Task:
  """A task that an algorithm has to solve, and the goals for its seconds.

  Attributes:
    name: name of the report.
    config: config and preset of the runs.
    flags: further flags of the runs.
    limit_s: wall-clock limit of one run, in seconds.
    median_goal_s: goal for the median seconds from the command to the target.
    start_up_goal_s: goal for the seconds until the slowest run's first update.
  """

  name: str
  config: str
  flags: tuple[str, ...]
  limit_s: float
  median_goal_s: float
  start_up_goal_s: float


CARTPOLE = Task("cartpole", "ppo:cartpole", (), 240.0, 120.0, 10.0)
PONG = Task(
  *("pong_solved", "ppo:pong"),
  ("--config.network.torso=nature_cnn_bfloat16",),
  *(1_800.0, 1_800.0, 60.0),
)


def measure(
  task: Task, seeds: int, folder: pathlib.Path, overrides: tuple[str, ...] = ()
) -> report.Report:
  """Trains once per seed, and draws all learning curves into one picture.

  Args:
    task: task to solve.
    seeds: number of runs, which have the seeds 1 to `seeds`.
    folder: folder in which the picture is saved.
    overrides: further flags of the runs.
  """
  config = overrides_lib.load(task.config)
  target = config.limits.target_return
  raw, rows = [], {}
  with tempfile.TemporaryDirectory() as runs:
    for seed in range(1, seeds + 1):
      name = f"seed-{seed}"
      watched = whole_run.run(
        task.config,
        [f"--config.seed={seed}", *task.flags, *overrides],
        task.limit_s,
        pathlib.Path(runs),
        name,
        may_reach_limit=True,
      )
      raw.append(_row(seed, watched, target))
      rows[seed] = curves.read(pathlib.Path(runs) / name / "curves.csv")
  _draw(rows, target, folder / f"{task.name}.png")
  # Atari's name, 'ALE/{game}-v5', has the game in it.
  task_name = config.environment.name.format(game=config.environment.game)
  method = _METHOD.format(
    command=" ".join(("slipway train", f"--config={task.config}", *task.flags)),
    seeds="seed 1" if seeds == 1 else f"seeds 1 to {seeds}, one by one",
    evaluations=config.limits.target_evaluations,
    episodes=config.evaluation.episodes,
    target=target,
    limit_s=task.limit_s,
  )
  return report.Report(
    name=task.name,
    title=f"{task_name}: seconds until it is solved",
    method=f"{method}\n\n![Returns of all seeds]({task.name}.png)",
    raw=raw,
    medians=[_medians(raw)],
    goals=_goals(task, raw),
  )


def _row(seed: int, watched: whole_run.Watched, target: float) -> report.Row:
  """Returns the row of one run."""
  summary = watched.summary
  return {
    "seed": seed,
    # Each of the last `limits.target_evaluations` mean returns has reached it.
    "solved": summary.stopped_because == "target_return"
    and summary.evaluation.mean_return is not None
    and summary.evaluation.mean_return >= target,
    **{
      name: getattr(summary, name)
      for name in (
        "wall_s",
        "start_up_s",
        "env_steps",
        "trainer_steps",
        "stopped_because",
      )
    },
    "env_steps_per_s": summary.rates.mean_env_steps_per_s,
    "trainer_steps_per_s": summary.rates.mean_trainer_steps_per_s,
    "best_eval_return": summary.evaluation.best_mean_return,
    "cpu_s": watched.cpu_s,
    "memory_peak_mib": watched.peak_mib,
  }


def _medians(raw: list[report.Row]) -> report.Row:
  """Returns the row of medians over all runs."""
  return {
    "seeds": len(raw),
    "solved": sum(bool(row["solved"]) for row in raw),
    "median s": report.median(_timed(raw), "wall_s"),
    "slowest s": max(row["wall_s"] for row in _timed(raw)),
    "median start-up s": statistics.median(_start_ups(raw)),
    "slowest start-up s": max(_start_ups(raw)),
    "median environment steps": report.median(raw, "env_steps"),
    "median CPU s": report.median(raw, "cpu_s"),
    "median peak MiB": report.median(raw, "memory_peak_mib"),
  }


def _timed(raw: list[report.Row]) -> list[report.Row]:
  """Returns the rows with infinite seconds for runs that were not solved."""
  return [row if row["solved"] else {**row, "wall_s": math.inf} for row in raw]


def _start_ups(raw: list[report.Row]) -> list[float]:
  """Returns the runs' seconds to the first update; infinite: no update."""
  return [
    math.inf if row["start_up_s"] is None else row["start_up_s"] for row in raw
  ]


def _goals(task: Task, raw: list[report.Row]) -> list[str]:
  """Returns the lines of a task's goals."""
  medians = _medians(raw)
  least = math.ceil(_PART_SOLVED_GOAL * len(raw))
  return [
    goal.at_least(
      f"{medians['solved']} of {len(raw)} seeds solved, goal at least {least}",
      medians["solved"],
      least,
    ),
    goal.at_most(
      f"median of {medians['median s']:,.0f} s, goal under "
      f"{task.median_goal_s:,.0f} s",
      medians["median s"],
      task.median_goal_s,
    ),
    goal.at_most(
      f"slowest start-up of {medians['slowest start-up s']:.1f} s, goal under "
      f"{task.start_up_goal_s:.0f} s",
      medians["slowest start-up s"],
      task.start_up_goal_s,
    ),
  ]


def _draw(
  rows: dict[int, dict[str, np.ndarray]], target: float, path: pathlib.Path
) -> None:
  """Draws returns by seconds and by environment steps, one line per seed."""
  from matplotlib import colormaps, figure, ticker

  path.parent.mkdir(parents=True, exist_ok=True)
  picture = figure.Figure(figsize=(9.6, 4.2), dpi=150, layout="constrained")
  panels = picture.subplots(1, 2, sharey=True)
  columns = (
    ("wall_s", "seconds since the command"),
    ("env_steps", "environment steps, all workers'"),
  )
  for axes, (column, label) in zip(panels, columns, strict=True):
    for index, (seed, curve) in enumerate(rows.items()):
      axes.plot(
        curve[column],
        curve["eval_return"],
        color=colormaps["viridis"](0.9 * index / max(1, len(rows) - 1)),
        linewidth=1.3,
        marker="o",
        markersize=2.5,
        label=f"seed {seed}",
      )
    axes.axhline(target, color="#c2571a", linestyle=(0, (5, 3)), linewidth=1.2)
    axes.set_xlabel(label)
    axes.set_xlim(left=0)
    axes.set_ylim(
      bottom=min(0, *(c["eval_return"].min() for c in rows.values()))
    )
    axes.grid(axis="y", color="#e4e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
  panels[1].xaxis.set_major_formatter(ticker.EngFormatter(sep=""))
  panels[0].set_ylabel("mean return of an evaluation")
  panels[0].annotate(
    f"solved: {target:g}",
    (0, target),
    xytext=(4, -12),
    textcoords="offset points",
    fontsize=9,
    color="#c2571a",
  )
  handles, labels = panels[0].get_legend_handles_labels()
  picture.legend(
    handles, labels, loc="outside lower center", ncols=5, frameon=False,
    fontsize=9,
  )  # fmt: skip
  picture.savefig(path, format="png")
