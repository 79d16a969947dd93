"""Saved runs: counters of a snapshot, and a run with untrained variables."""

import pathlib
import typing
from collections.abc import Sequence

import ml_collections
import msgspec

from slipway.agents import registry
from slipway.environments import factory
from slipway.launch.runs import (
  best_variables,
  checkpoints,
  run_counters,
  run_folder,
  run_status,
  snapshot_store,
)

COUNTERS = run_counters.RunCounters(
  status=run_status.RunStatus(
    mode="async",
    env_steps=12_345,
    episodes=120,
    trainer_steps=1_500,
    variables=run_status.VariablesStatus(version=75),
    replay=run_status.ReplayStatus(size=3_000),
    wall_s=61.5,
    evaluation=run_status.EvaluationStatus(
      count=3, best_mean_return=240.0, without_improvement=2
    ),
  ),
  eval_returns=[240.0, 211.5, 210.25],
  nodes={},
)


def make_counters(
  eval_returns: Sequence[float] = (240.0, 211.5, 210.25),
  eval_infos: Sequence[dict[str, float]] = (),
  **status: typing.Any,
) -> run_counters.RunCounters:
  """Returns `COUNTERS` with other evaluations and fields of the status."""
  return run_counters.RunCounters(
    msgspec.structs.replace(COUNTERS.status, **status),
    list(eval_returns),
    nodes={},
    eval_infos=list(eval_infos),
  )


def write_run(
  config: ml_collections.ConfigDict, run_dir: pathlib.Path
) -> run_folder.RunFolder:
  """Makes the folder of a run, whose best variables are untrained."""
  folder = run_folder.RunFolder.create(run_dir, "a", overwrite=False)
  folder.write_config(config)
  spec = factory.make_spec(config.environment)
  learner = registry.make_builder(config.agent).make_learner(config, spec)
  best_variables.save(folder.best, 7, learner.get_variables())
  return folder


def write_snapshot(run: run_folder.RunFolder, version: int) -> None:
  """Writes a snapshot of a newly made learner, in a run's format."""
  config = run.read_config()
  spec = factory.make_spec(config.environment)
  learner = registry.make_builder(config.agent).make_learner(config, spec)
  with snapshot_store.open_store(config, run).writing() as path:
    variables = run_status.VariablesStatus(version)
    make_counters(variables=variables).write(path)
    checkpoints.save(path, learner)
