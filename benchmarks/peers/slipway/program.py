"""Slipway: learns a task in a run that is started and polled like a user's.

Variants `prioritized` and `uniform` do the same work as the other libraries, to
measure the speed. Variants `apex_dqn`, `dqn`, `ppo`, `sac` and `td3` are
unchanged presets; `ppo_bfloat16` multiplies in bfloat16. Variant `appo` makes
fewer gradient steps per batch, and `d4pg` has Acme's number of workers, rate of
updates and uniform sampling.
"""
# pyright: reportMissingImports=false

import os
import pathlib
import subprocess
import sys
import time
import typing

import continuous
import progress
import rollouts
import tasks

from benchmarks import control_status
from slipway.launch.runs import curves, run_folder

# Number of worker processes, and of environments per worker, by task.
TOPOLOGY = {"cartpole": (1, 64), "lunarlander": (1, 64), "pong": (1, 16)}

# Variants that are unchanged presets of the algorithm with that name.
_PRESETS = ("apex_dqn", "dqn", "ppo", "sac", "td3")

_PERIOD_S = 1.0


def _config_name(variant: str, name: str) -> str:
  """Returns the value of --config for a task, such as 'ppo:cartpole'."""
  preset = name.rpartition("_")[2]
  if variant in ("prioritized", "uniform"):
    algorithm = "apex_dqn"
  else:
    algorithm = variant.removesuffix("_bfloat16")
  return f"{algorithm}:{preset}"


def _make_overrides(variant: str, name: str) -> dict[str, typing.Any]:
  """Returns the config values for the same work as the other libraries do.

  Args:
    variant: variant of this program.
    name: name of the task.

  Returns:
    Values by dotted name of the config field; none for unchanged presets.
  """
  if name == "ppo_halfcheetah":
    return {"limits.environment_steps": 0}  # it is stopped when it has learned
  if variant in _PRESETS:
    return {}
  if variant == "ppo_bfloat16":
    return {"network.torso": "nature_cnn_bfloat16"}
  if variant == "d4pg":
    task = continuous.TASKS[name]
    return {
      "replay.sampler": "uniform",
      "replay.samples_per_insert": task.batch_size / task.steps_per_update,
      "topology.workers": 4,
    }
  if variant == "appo":
    task = rollouts.TASKS[name]
    return {
      "topology.environments_per_worker": task.environments,
      "learner.batch_size": task.environments,
      "learner.epochs": task.epochs,
      "learner.minibatch_size": task.minibatch_size,
      "learner.decay_steps": task.decay_steps,
    }
  task = tasks.TASKS[name]
  workers, environments = TOPOLOGY[name]
  return {
    "network.dueling": False,
    "learner.double": False,
    "adder.n_step": 1,
    "replay.sampler": variant,
    "replay.samples_per_insert": task.batch_size / task.steps_per_update,
    "replay.min_size": task.min_size,
    "replay.capacity": task.capacity,
    "variables.publish_period": 100,
    "topology.workers": workers,
    "topology.environments_per_worker": environments,
  }


def _find_first_reached(
  path: pathlib.Path, until: float, in_a_row: int
) -> dict | None:
  """Returns the first of a run's evaluations that has reached a target return.

  Args:
    path: path of the run's learning curve, a CSV file.
    until: target of the mean return.
    in_a_row: evaluations in a row that must reach it.

  Returns:
    The last one's values by column; None: the target was not reached.
  """
  rows, count = curves.read(path), 0
  for index, value in enumerate(rows["eval_return"]):
    count = count + 1 if value >= until else 0
    if count == in_a_row:
      return {name: float(column[index]) for name, column in rows.items()}
  return None


def main() -> None:
  """Learns a task until its target is reached, or the process is killed."""
  args = progress.parse_arguments(
    (*_PRESETS, "prioritized", "uniform", "ppo_bfloat16", "appo", "d4pg")
  )
  out = os.dup(1)
  runs = os.getcwd()
  # A trainer step of PPO makes all gradient steps on a batch.
  updates_per_step = 1
  if args.task in rollouts.TASKS:
    updates_per_step = rollouts.TASKS[args.task].updates_per_batch
  overrides = _make_overrides(args.variant, args.task)
  overrides["limits.target_return"] = (
    "inf" if args.until is None else args.until
  )
  overrides["limits.target_evaluations"] = args.in_a_row
  if args.until is not None:
    overrides["evaluation.episodes"] = progress.EPISODES
  root = pathlib.Path(__file__).resolve().parents[3]
  began_s = time.monotonic()
  launcher = subprocess.Popen(
    [
      *(sys.executable, "-m", "slipway.launch.commands.train"),
      f"--config={_config_name(args.variant, args.task)}",
      *(f"--run_dir={runs}", "--name=run", f"--config.seed={args.seed}"),
      *(f"--config.{field}={value}" for field, value in overrides.items()),
    ],
    cwd=root,
    stdout=2,
  )
  folder = run_folder.RunFolder(pathlib.Path(runs) / "run")
  control = control_status.ControlStatus(folder)
  while launcher.poll() is None:
    time.sleep(_PERIOD_S)
    status = control.poll()
    if status is not None:
      progress.write_line(
        out,
        env_steps=status.env_steps,
        updates=status.trainer_steps * updates_per_step,
        mean_return=status.training_return,
        evaluated=status.evaluation.mean_return,
        evaluated_at=None,
        paused_s=0.0,
        reached=False,
      )
  if launcher.returncode or args.until is None:
    sys.exit(launcher.returncode or 1)
  row = _find_first_reached(folder.curves_csv, args.until, args.in_a_row)
  if row is not None:
    progress.write_line(
      out,
      env_steps=int(row["env_steps"]),
      updates=int(row["trainer_steps"]) * updates_per_step,
      mean_return=None,
      evaluated=row["eval_return"],
      evaluated_at=int(row["env_steps"]),
      paused_s=0.0,
      reached=True,
      at_s=began_s + row["wall_s"],
    )


if __name__ == "__main__":
  main()
