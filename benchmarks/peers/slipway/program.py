"""Slipway on a task, started and polled like a user's run.

Variants `prioritized` and `uniform` do the work of the other libraries, for
throughput; `preset` is the unchanged preset of Ape-X, for learning, and `ppo`
that of PPO. `appo` has fewer gradient steps a batch.
"""
# pyright: reportMissingImports=false

import os
import pathlib
import subprocess
import sys
import time
import typing

import progress
import rollouts
import tasks

from benchmarks import control_status
from slipway.launch.runs import curves, run_folder

# Worker processes and environments of each, by task.
TOPOLOGY = {"cartpole": (1, 64), "lunarlander": (1, 64), "pong": (1, 16)}

_PERIOD_S = 1.0


def _config(variant: str, name: str) -> str:
  """Returns the config of a task, as --config takes it."""
  preset = name.rpartition("_")[2]
  algorithm = variant if name in rollouts.TASKS else "apex_dqn"
  return f"{algorithm}:{preset}"


def _overrides(variant: str, name: str) -> dict[str, typing.Any]:
  """Returns overrides of the config that give the same work as the others'."""
  if variant in ("preset", "ppo"):
    return {}
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


def _first_reached(path: pathlib.Path, until: float) -> dict | None:
  """Returns the first evaluation that reached the target, by column."""
  rows = curves.read(path)
  for index, value in enumerate(rows["eval_return"]):
    if value >= until:
      return {name: float(column[index]) for name, column in rows.items()}
  return None


def main() -> None:
  """Learns until the target, or until the process is killed."""
  asked = progress.parse_arguments(
    ("prioritized", "uniform", "preset", "ppo", "appo")
  )
  out = os.dup(1)
  runs = os.getcwd()
  # A trainer step of PPO is all gradient steps on a batch.
  updates_per_step = 1
  if asked.task in rollouts.TASKS:
    updates_per_step = rollouts.TASKS[asked.task].updates_per_batch
  overrides = _overrides(asked.variant, asked.task)
  overrides["limits.target_return"] = (
    "inf" if asked.until is None else asked.until
  )
  root = pathlib.Path(__file__).resolve().parents[3]
  began_s = time.monotonic()
  launcher = subprocess.Popen(
    [
      *(sys.executable, "-m", "slipway.launch.train"),
      f"--config={_config(asked.variant, asked.task)}",
      *(f"--run_dir={runs}", "--name=run", f"--config.seed={asked.seed}"),
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
      progress.tell(
        out,
        env_steps=status.env_steps,
        updates=status.trainer_steps * updates_per_step,
        mean_return=None,
        evaluated=status.evaluation.mean_return,
        paused_s=0.0,
        reached=False,
      )
  if launcher.returncode or asked.until is None:
    sys.exit(launcher.returncode or 1)
  row = _first_reached(folder.curves_csv, asked.until)
  if row is not None:
    progress.tell(
      out,
      env_steps=int(row["env_steps"]),
      updates=int(row["trainer_steps"]) * updates_per_step,
      mean_return=None,
      evaluated=row["eval_return"],
      paused_s=0.0,
      reached=True,
      at_s=began_s + row["wall_s"],
    )


if __name__ == "__main__":
  main()
