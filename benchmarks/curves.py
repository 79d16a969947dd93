"""Learning curves: `python -m benchmarks.curves --task=... --algorithms=...`.

Runs algorithms with several seeds, saves their evaluations, and draws all
saved curves of a task into one picture.
"""

import argparse
import csv
import dataclasses
import pathlib
import sys
import tempfile
import typing
from collections.abc import Mapping, Sequence
from concurrent import futures

import numpy as np

from benchmarks import command_line, curves_picture, machine, whole_run
from slipway.configs import catalog
from slipway.launch.runs import curves as run_curves
from slipway.launch.runs import statistics

# The columns of a run's curves.csv that are saved.
_KEPT = ("wall_s", "env_steps", "trainer_steps", "eval_return")
# The flag with the number of environment steps of a run.
_STEPS_FLAG = "--config.limits.environment_steps="
_ADVICE_SEPARATOR = " | "

_PAGE = """\
# Learning curves: {title}

`python -m benchmarks.curves --task={task}`: for each algorithm and seed a run
of `slipway train --config=<algorithm>:{flags}`,
workers, trainer and evaluator on the same machine. Lines are means over the
seeds, as far as all of them have evaluations, bands the 95 % interval of the
mean by the bootstrap (Agarwal et al. 2021), which a single seed does not have;
grey are the other algorithms' means. Wall-clock counts from the command.

![Curves]({task}.png)

{table}
{advice}
- *steps*: environment steps of all workers after which a run ended.
- *evaluations*: number of evaluations of a run, with that of the untrained
  policy. They come per second, so a faster run has fewer.
- *final return*: mean of a run's evaluations in the last tenth of its
  environment steps, as a mean over the seeds, with its 95 % interval. The steps
  count until the last evaluation, which may be well before the run's end.
- *best*: highest single evaluation of a run, which is partly luck, as a mean
  over the seeds.
- *seconds*: time of a run's last evaluation, as a mean over the seeds.
- *at once*: number of runs that shared the machine.
- *commit*: the version of Slipway. Steps and presets are those of this version;
  today's may differ.

Every evaluation is in [{task}/]({task}/), with the commit, the flags, the
machine and the versions that it was made with.
"""


@dataclasses.dataclass(frozen=True)
class Task:
  """A task on which algorithms are compared.

  Attributes:
    preset: preset of the algorithms' configs.
    title: title of the page, one line.
    env_steps: environment steps after which each run ends.
    limit_s: seconds after which a run is aborted.
    flags: further flags of the runs.
  """

  preset: str
  title: str
  env_steps: int
  limit_s: float
  flags: tuple[str, ...] = ()


TASKS = {
  "cartpole": Task("cartpole", "CartPole-v1", 150_000, 600.0),
  "cartpole_policy_gradients": Task(
    "cartpole", "CartPole-v1, policy gradients", 600_000, 600.0
  ),
  "acrobot": Task(
    *("cartpole", "Acrobot-v1, by presets of CartPole", 100_000, 1_200.0),
    ("--config.environment.name=Acrobot-v1",),
  ),
  "mountaincar": Task(
    *("cartpole", "MountainCar-v0, by presets of CartPole", 100_000, 1_200.0),
    ("--config.environment.name=MountainCar-v0",),
  ),
  "lunarlander": Task("lunarlander", "LunarLander-v3", 100_000, 1_800.0),
  "lunarlander_policy_gradients": Task(
    "lunarlander", "LunarLander-v3, policy gradients", 1_000_000, 1_800.0
  ),
  "minatar_breakout": Task(
    "minatar_breakout", "MinAtar Breakout", 500_000, 3_600.0
  ),
  "pong_policy_gradients": Task(
    "pong", "Pong, policy gradients", 1_000_000, 7_200.0
  ),
  "pendulum": Task("pendulum", "Pendulum-v1", 20_000, 600.0),
  "halfcheetah": Task("halfcheetah", "HalfCheetah-v5", 120_000, 3_600.0),
}


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the given algorithms, and draws and writes the task's learning curves.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status: 0, or 2 if there are no curves to draw.
  """
  args = _parse(arguments)
  task, folder = TASKS[args.task], args.out / args.task
  folder.mkdir(parents=True, exist_ok=True)
  made_with = {"runs at once": str(args.at_once), **machine.describe()}
  with futures.ThreadPoolExecutor(args.at_once) as pool:
    runs = {
      algorithm: [
        pool.submit(_measure, algorithm, task, seed)
        for seed in range(1, args.seeds + 1)
      ]
      for algorithm in args.algorithms
    }
    for algorithm, of_seeds in runs.items():
      measured = [run.result() for run in of_seeds]
      rows = [row for run_rows, _ in measured for row in run_rows]
      advice = [sentence for _, given in measured for sentence in given]
      head = {
        "config": " ".join(_command(algorithm, task)),
        "advice": _ADVICE_SEPARATOR.join(advice),
        **made_with,
      }
      _write(folder / f"{algorithm}.csv", head, rows)
  kept = {path.stem: read(path) for path in sorted(folder.glob("*.csv"))}
  if not kept:
    print(
      f"curves: {str(folder)!r} has no saved curves, so there is nothing to "
      "draw: give --algorithms=NAME,NAME",
      file=sys.stderr,
    )
    return 2
  curves = {name: found for name, (_, found) in kept.items()}
  curves_picture.draw(curves, args.out / f"{args.task}.png")
  page = _PAGE.format(
    title=task.title,
    task=args.task,
    flags=" ".join((task.preset, *task.flags)),
    table=_table(kept),
    advice=_list_advice(kept),
  )
  (args.out / f"{args.task}.md").write_text(page, encoding="utf-8")
  print(page)
  return 0


class Curve(typing.NamedTuple):
  """The evaluations of one run.

  Attributes:
    wall_s: seconds since the run's start.  # [N]
    env_steps: environment steps of all workers.  # [N]
    eval_return: mean return of the evaluation.  # [N]
  """

  wall_s: np.ndarray
  env_steps: np.ndarray
  eval_return: np.ndarray


def read(path: pathlib.Path) -> tuple[dict[str, str], list[Curve]]:
  """Reads the learning curves of one algorithm from its CSV file.

  Args:
    path: path of a file that `main` has written.

  Returns:
    The lines of the file's head by name, and one curve per seed.
  """
  lines = path.read_text(encoding="utf-8").splitlines()
  head = [line[2:].split(": ", 1) for line in lines if line.startswith("# ")]
  rows = list(csv.DictReader(lines[len(head) :]))
  found = []
  for seed in sorted({int(row["seed"]) for row in rows}):
    own = [row for row in rows if int(row["seed"]) == seed]
    columns = (
      np.array([float(row[name]) for row in own])
      for name in ("wall_s", "env_steps", "eval_return")
    )
    found.append(Curve(*columns))
  return dict(head), found


def _command(algorithm: str, task: Task) -> list[str]:
  """Returns the config and the overrides that the runs of all seeds share."""
  return [
    f"{algorithm}:{task.preset}",
    *task.flags,
    f"{_STEPS_FLAG}{task.env_steps}",
    "--config.limits.target_return=inf",
  ]


def _measure(
  algorithm: str, task: Task, seed: int
) -> tuple[list[dict[str, typing.Any]], list[str]]:
  """Runs an algorithm with a seed.

  Returns:
    One row per evaluation, and the advice that the run gave.
  """
  print(f"{task.title}: {algorithm}, seed {seed} ...", file=sys.stderr)
  config, *flags = _command(algorithm, task)
  flags.append(f"--config.seed={seed}")
  with tempfile.TemporaryDirectory() as runs:
    folder = pathlib.Path(runs)
    done = whole_run.run(config, flags, task.limit_s, folder, "run")
    found = run_curves.read(folder / "run" / "curves.csv")
  rows = [
    {"seed": seed, **dict(zip(_KEPT, values, strict=True))}
    for values in zip(*(found[name] for name in _KEPT), strict=True)
  ]
  return rows, done.summary["advice"]


def _write(
  path: pathlib.Path,
  made_with: Mapping[str, str],
  rows: Sequence[Mapping[str, typing.Any]],
) -> None:
  """Writes the evaluations of an algorithm's runs as CSV, after a head."""
  with open(path, "w", newline="", encoding="utf-8") as file:
    file.writelines(f"# {name}: {value}\n" for name, value in made_with.items())
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _table(
  kept: Mapping[str, tuple[Mapping[str, str], Sequence[Curve]]],
) -> str:
  """Returns a markdown table with one row per algorithm."""
  lines = [
    "| algorithm | seeds | steps | evaluations | final return | best | seconds "
    "| at once | commit |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
  ]
  for name, (made_with, curves) in kept.items():
    counts = sorted({len(curve.eval_return) for curve in curves})
    evaluations = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    final = np.array(
      [run_curves.final_return(x.env_steps, x.eval_return) for x in curves]
    )
    best = np.array([curve.eval_return.max() for curve in curves])
    seconds = np.mean([curve.wall_s[-1] for curve in curves])
    bounds = statistics.interval(statistics.mean, final)
    if interval := statistics.format_interval(bounds, ",.1f"):
      interval = f" ({interval})"
    steps = int(made_with["config"].partition(_STEPS_FLAG)[2].split()[0])
    lines.append(
      f"| {name} | {len(curves)} | {steps:,} | {evaluations} "
      f"| {final.mean():,.1f}{interval} | {best.mean():,.1f} "
      f"| {seconds:,.0f} | {made_with['runs at once']} "
      f"| {made_with['commit']} |"
    )
  return "\n".join(lines)


def _list_advice(kept: Mapping[str, tuple[Mapping[str, str], object]]) -> str:
  """Returns a list of the advice that the runs of each algorithm gave."""
  lines = [
    f"- {name}: {sentence}"
    for name, (made_with, _) in kept.items()
    for sentence in made_with.get("advice", "").split(_ADVICE_SEPARATOR)
    if sentence
  ]
  if not lines:
    return ""
  return "\nRuns gave this advice:\n\n" + "\n".join(lines) + "\n"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  configs = tuple(catalog.algorithms())
  parser = argparse.ArgumentParser(
    prog="benchmarks.curves", description=__doc__
  )
  parser.add_argument("--task", choices=list(TASKS), default="cartpole")
  parser.add_argument(
    "--algorithms",
    type=lambda text: command_line.names(text, configs, "algorithm"),
    default=(),
    help="algorithms to run, separated by commas; default: none, so that only "
    "the saved curves are drawn",
  )
  parser.add_argument(
    "--seeds",
    type=command_line.positive,
    default=5,
    help="runs per algorithm; default: 5",
  )
  parser.add_argument(
    "--at_once",
    type=command_line.positive,
    default=1,
    help="number of runs that share the machine; default: 1",
  )
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=command_line.RESULTS / "curves",
    help="folder of the results; default: benchmarks/results/curves",
  )
  return parser.parse_args(arguments)


if __name__ == "__main__":
  sys.exit(main())
