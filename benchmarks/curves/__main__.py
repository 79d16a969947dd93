"""Learning curves: `python -m benchmarks.curves --task=... --algorithms=...`.

Runs algorithms with several seeds, those of other libraries, too, saves their
evaluations, and draws all saved curves of a task into one picture.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from concurrent import futures

from benchmarks import command_line, machine, whole_run
from benchmarks.curves import data, page, peers, picture, tasks
from benchmarks.peers import entries, installation
from slipway.configs import catalog
from slipway.launch.runs import curves as run_curves

# The columns of a run's curves.csv that are saved.
_KEPT = ("wall_s", "env_steps", "trainer_steps", "eval_return")


def main(arguments: Sequence[str] | None = None) -> int:
  """Runs the given algorithms, and draws and writes the task's learning curves.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status: 0, or 2 if there are no curves to draw.
  """
  args = _parse(arguments)
  task, folder = tasks.TASKS[args.task], args.out / args.task
  if args.steps is not None:
    task = dataclasses.replace(task, env_steps=args.steps)
  folder.mkdir(parents=True, exist_ok=True)
  _run_missing(args, task, folder)
  kept = data.read_all(folder)
  if not kept:
    print(
      f"curves: {str(folder)!r} has no saved curves, so there is nothing to "
      "draw: give --algorithms=NAME,NAME",
      file=sys.stderr,
    )
    return 2
  picture.draw(
    {algorithm: saved.curves() for algorithm, saved in kept.items()},
    args.out / f"{args.task}.png",
    task.published,
  )
  text = page.make_page(args.task, task, kept)
  (args.out / f"{args.task}.md").write_text(text, encoding="utf-8")
  print(text)
  of_tasks = {name: data.read_all(args.out / name) for name in tasks.TASKS}
  overview = page.make_overview({x: y for x, y in of_tasks.items() if y})
  (args.out / "README.md").write_text(overview, encoding="utf-8")
  return 0


def _run_missing(
  args: argparse.Namespace, task: tasks.Task, folder: pathlib.Path
) -> None:
  """Runs the algorithms with the seeds that the task's folder lacks.

  A run is saved as soon as it has ended, so that an interrupted benchmark
  continues. Runs of another commit or length, or with other flags, are
  replaced.
  """
  made_with = {"runs at once": str(args.at_once), **machine.describe()}
  seeds = range(args.first_seed, args.first_seed + args.seeds)
  with futures.ThreadPoolExecutor(args.at_once) as pool:
    runs: dict[futures.Future[tuple[list[data.Row], list[str]]], str] = {}
    saved: dict[str, data.Saved] = {}
    for algorithm in args.algorithms:
      if algorithm in peers.PEERS:
        config = peers.PEERS[algorithm].entry
        # Before several runs need it at once.
        installation.install_for(entries.find_peer(config))
      else:
        config = " ".join(_command(algorithm, task))
      head = {
        "config": config,
        "steps": str(task.env_steps),
        "advice": "",
        **made_with,
      }
      kept = data.read(folder / f"{algorithm}.csv")
      is_same = all(
        kept.head.get(name) == head[name]
        for name in ("config", "steps", "commit")
      )
      saved[algorithm] = kept if is_same else data.Saved(head)
      for seed in sorted(set(seeds).difference(saved[algorithm].seeds())):
        run = pool.submit(_measure, algorithm, args.task, task, seed)
        runs[run] = algorithm
    for run in futures.as_completed(runs):
      algorithm, (rows, advice) = runs[run], run.result()
      old = saved[algorithm]
      advice = page.join_advice(old.head["advice"], advice)
      saved[algorithm] = data.Saved(
        {**old.head, "advice": advice}, [*old.rows, *rows]
      )
      data.write(folder / f"{algorithm}.csv", saved[algorithm])


def _command(algorithm: str, task: tasks.Task) -> list[str]:
  """Returns the config and the overrides that the runs of all seeds share."""
  return [
    f"{algorithm}:{task.preset}",
    *task.flags,
    f"--config.limits.environment_steps={task.env_steps}",
    "--config.limits.target_return=inf",
  ]


def _measure(
  algorithm: str, task_name: str, task: tasks.Task, seed: int
) -> tuple[list[data.Row], list[str]]:
  """Runs an algorithm with a seed.

  Returns:
    One row per evaluation, and the advice that the run gave.
  """
  print(f"{task.title}: {algorithm}, seed {seed} ...", file=sys.stderr)
  if algorithm in peers.PEERS:
    return peers.measure(algorithm, task_name, task, seed), []
  config, *flags = _command(algorithm, task)
  flags.append(f"--config.seed={seed}")
  with tempfile.TemporaryDirectory() as runs:
    folder = pathlib.Path(runs)
    done = whole_run.run(config, flags, task.limit_s, folder, "run")
    found = run_curves.read(folder / "run" / "curves.csv")
  rows = [
    {"seed": str(seed), **dict(zip(_KEPT, map(str, values), strict=True))}
    for values in zip(*(found[name] for name in _KEPT), strict=True)
  ]
  return rows, done.summary.advice


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
  configs = tuple(catalog.algorithms())
  parser = argparse.ArgumentParser(
    prog="benchmarks.curves", description=__doc__
  )
  parser.add_argument("--task", choices=list(tasks.TASKS), default="cartpole")
  parser.add_argument(
    "--algorithms",
    type=lambda text: command_line.names(
      text, (*configs, *peers.PEERS), "algorithm"
    ),
    default=(),
    help="algorithms to run, separated by commas, with those of other "
    f"libraries ({', '.join(peers.PEERS)}); default: none, so that only the "
    "saved curves are drawn",
  )
  command_line.add_count(parser, "--seeds", 5, "runs per algorithm")
  command_line.add_count(parser, "--first_seed", 1, "the lowest seed")
  command_line.add_count(
    parser, "--at_once", 1, "number of runs that share the machine"
  )
  parser.add_argument(
    "--steps",
    type=command_line.positive,
    help="environment steps after which the runs end; default: the task's",
  )
  parser.add_argument(
    "--out",
    type=pathlib.Path,
    default=command_line.RESULTS / "curves",
    help="folder of the results; default: benchmarks/results/curves",
  )
  args = parser.parse_args(arguments)
  for name in args.algorithms:
    if name in peers.PEERS and name not in peers.list_names(args.task):
      known = ", ".join(peers.list_names(args.task)) or "no other library"
      parser.error(
        f"{name} has no values for --task={args.task}, so it can't learn it: "
        f"{known} can"
      )
  return args


if __name__ == "__main__":
  sys.exit(main())
