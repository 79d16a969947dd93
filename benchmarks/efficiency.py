"""Sample efficiency: `python -m benchmarks.efficiency --tasks=... --seeds=...`.

Trains Slipway's presets and Stable-Baselines3 for the same number of
environment steps, and compares the returns of their final policies over seeds.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import typing
from collections.abc import Sequence
from concurrent import futures

import numpy as np

from benchmarks import (
  command_line,
  goal,
  machine,
  partial_results,
  report,
  whole_run,
)
from benchmarks.peers import entries, installation, watched
from slipway.launch.runs import statistics

PEER = entries.SB3_ZOO
_EPISODES = 20
_LIMIT_S = 3_600.0  # seconds after which a run is aborted
_MEAN = re.compile(r"mean return (-?[\d.]+)")

_METHOD = """\
Each preset and Stable-Baselines3 with the values of RL Baselines3 Zoo are
trained for {steps:,} environment steps, without a target, with the seeds 1 to
{seeds}, {order}. Then the final policy, not the best one, plays
{episodes} greedy episodes; *return* is their mean. IQM: the interquartile mean
over the seeds, with its 95 % bootstrap interval (Agarwal et al. 2021), which
a single seed does not have."""

_SECONDS = """
*seconds* is the median duration of a run, from the command, without these
episodes."""


class Task(typing.NamedTuple):
  """A task, and who learns it.

  Attributes:
    title: title of the page.
    env_steps: environment steps of each run.
    presets: Slipway's configs; the goal is for the first one.
    peer: values of --task and --variant of Stable-Baselines3's program.
  """

  title: str
  env_steps: int
  presets: tuple[str, ...]
  peer: tuple[str, str]


TASKS = {
  "dqn_cartpole": Task(
    "DQN on CartPole",
    50_000,
    ("dqn:cartpole", "apex_dqn:cartpole", "rainbow:cartpole"),
    ("cartpole", "zoo"),
  ),
  "dqn_lunarlander": Task(
    "DQN on LunarLander",
    100_000,
    ("dqn:lunarlander",),
    ("lunarlander", "zoo"),
  ),
  "ppo_cartpole": Task(
    "PPO on CartPole", 50_000, ("ppo:cartpole",), ("ppo_cartpole", "ppo")
  ),
  "sac_pendulum": Task(
    "SAC on Pendulum",
    10_000,
    ("sac:pendulum",),
    ("sac_pendulum", "zoo"),
  ),
  "sac_halfcheetah": Task(
    "SAC on HalfCheetah",
    30_000,
    ("sac:halfcheetah",),
    ("sac_halfcheetah", "zoo"),
  ),
  "td3_halfcheetah": Task(
    "TD3 on HalfCheetah",
    30_000,
    ("td3:halfcheetah",),
    ("td3_halfcheetah", "zoo"),
  ),
}


def main(arguments: Sequence[str] | None = None) -> int:
  """Compares on the given tasks, and writes a page for each.

  Args:
    arguments: arguments of the command line; None: those of this process.

  Returns:
    Exit status 0, whatever the results are.
  """
  parser = argparse.ArgumentParser(
    prog="benchmarks.efficiency", description=__doc__
  )
  parser.add_argument(
    "--tasks",
    type=lambda text: command_line.names(text, tuple(TASKS), "task"),
    default=tuple(TASKS),
    help=f"tasks, separated by commas; default: all, {','.join(TASKS)}",
  )
  command_line.add_count(parser, "--seeds", 10, "number of seeds")
  command_line.add_count(
    parser,
    "--at_once",
    1,
    "number of runs at once, which are not timed if several",
  )
  parser.add_argument(
    "--without_peer",
    action="store_true",
    help="train Slipway only, and don't install Stable-Baselines3",
  )
  command_line.add_out(parser)
  args = parser.parse_args(arguments)
  for name in args.tasks:
    head = machine.describe()
    with partial_results.PartialResults(args.out, _page_name(name)) as partial:
      found = measure(
        name,
        args.seeds,
        partial,
        with_peer=not args.without_peer,
        at_once=args.at_once,
      )
      found.write(args.out, head)
    print(found.markdown(head), flush=True)
  return 0


def measure(
  name: str,
  seeds: int,
  partial: partial_results.PartialResults,
  env_steps: int | None = None,
  with_peer: bool = True,
  at_once: int = 1,
) -> report.Report:
  """Trains all learners of a task with all seeds.

  Args:
    name: a name from `TASKS`.
    seeds: number of seeds.
    partial: keeps the rows of the runs that have ended.
    env_steps: environment steps of each run; None: those of the task.
    with_peer: whether Stable-Baselines3 is trained, too.
    at_once: number of runs at once; if several, there are no seconds.
  """
  task = TASKS[name]
  learners = (*task.presets, *([PEER] if with_peer else []))
  task = task._replace(env_steps=env_steps or task.env_steps)

  def measure_run(seed: int, learner: str) -> report.Row:
    def measure_now() -> report.Row:
      row = _measure(task, learner, seed, at_once)
      return row if at_once == 1 else {**row, "seconds": None}

    return partial.measure(
      f"{name}: {learner}, {task.env_steps:,} steps, seed {seed}", measure_now
    )

  runs = itertools.product(range(1, seeds + 1), learners)
  if PEER in learners:  # before several runs need it at once
    installation.install_for(entries.find_peer(PEER))
  with futures.ThreadPoolExecutor(at_once) as pool:
    raw = list(pool.map(lambda run: measure_run(*run), runs))
  # A benchmark that continues may have rows of several runs at once.
  is_timed = all(row["seconds"] is not None for row in raw)
  medians = [_summarize(raw, learner, is_timed) for learner in learners]
  goals = []
  if with_peer:
    mine, theirs = medians[0]["IQM"], medians[-1]["IQM"]
    goals.append(
      goal.verdict(
        f"{learners[0]} has an IQM of {mine:.1f}, {PEER}, of {theirs:.1f}, "
        "goal to be at least as high",
        mine >= theirs,
      )
    )
  return report.Report(
    name=_page_name(name),
    title=f"{task.title}: sample efficiency",
    method=_METHOD.format(
      steps=task.env_steps,
      seeds=seeds,
      episodes=_EPISODES,
      order="one after the other" if is_timed else "several at once",
    )
    + (_SECONDS if is_timed else ""),
    raw=raw,
    medians=medians,
    goals=goals,
  )


def _page_name(name: str) -> str:
  """Returns the name of a task's page and of its table."""
  return f"efficiency_{name}"


def _measure(task: Task, learner: str, seed: int, at_once: int) -> report.Row:
  """Trains a preset or the peer on a task; returns the run's row."""
  mean_return, seconds = (
    _train_peer(task, seed, at_once)
    if learner == PEER
    else _train(learner, task.env_steps, seed)
  )
  return {
    "learner": learner,
    "seed": seed,
    "return": mean_return,
    "seconds": seconds,
  }


def _summarize(
  raw: Sequence[report.Row], learner: str, is_timed: bool
) -> report.Row:
  """Returns a learner's row of the table, by title of the column."""
  mine = [row for row in raw if row["learner"] == learner]
  returns = np.array([row["return"] for row in mine])
  iqm = statistics.interquartile_mean
  bounds = statistics.interval(iqm, returns)
  row: report.Row = {
    "learner": learner,
    "IQM": float(iqm(returns)),
    "95 % interval": statistics.format_interval(bounds, ".1f"),
    "lowest": float(returns.min()),
  }
  if is_timed:
    row["seconds"] = report.median(mine, "seconds")
  return row


def _train(config: str, env_steps: int, seed: int) -> tuple[float, float]:
  """Trains a preset of Slipway.

  Args:
    config: value of --config.
    env_steps: environment steps of the run.
    seed: seed of the run.

  Returns:
    The mean return of the final policy, and the run's seconds.
  """
  with tempfile.TemporaryDirectory() as folder:
    run_dir = pathlib.Path(folder)
    flags = [
      "--config.limits.target_return=inf",
      f"--config.limits.environment_steps={env_steps}",
      f"--config.seed={seed}",
    ]
    done = whole_run.run(config, flags, _LIMIT_S, run_dir, "run")
    played = subprocess.run(
      [
        *(
          sys.executable,
          "-m",
          "slipway.launch.commands.cli",
          "evaluate",
          "--which=latest",
        ),
        *(f"--run={run_dir / 'run'}", f"--episodes={_EPISODES}"),
      ],
      cwd=machine.ROOT,
      check=True,
      capture_output=True,
      text=True,
    )
    match = _MEAN.search(played.stdout)
    assert match is not None, played.stdout
    return float(match[1]), done.summary.wall_s


def _train_peer(task: Task, seed: int, at_once: int) -> tuple[float, float]:
  """Trains Stable-Baselines3; returns what `_train` returns."""
  name, variant = task.peer
  entry = dataclasses.replace(entries.find_peer(PEER), variant=variant)
  # Threads of several runs that share a core wait for each other.
  threads = max(1, len(os.sched_getaffinity(0)) // at_once)
  command = [
    *("env", f"OMP_NUM_THREADS={threads}"),
    *installation.make_command(entry, name, seed),
    f"--steps={task.env_steps}",
  ]
  with watched.start_program(command) as program:
    last_s = [program.began_s]  # of the last line before the episodes

    def is_end(line: watched.Line) -> bool:
      if not line.reached and line.env_steps < task.env_steps:
        last_s[0] = line.at_s
      return line.reached

    line = program.wait(is_end, program.began_s + _LIMIT_S)
    assert line.evaluated is not None
    return line.evaluated, last_s[0] - program.began_s


if __name__ == "__main__":
  sys.exit(main())
