"""Saved runs: counters of a snapshot, and a run with untrained variables."""

import pathlib

import ml_collections

from slipway.agents import registry
from slipway.environments import factory
from slipway.launch.runs import (
  best_variables,
  outbox,
  run_counters,
  run_folder,
)

COUNTERS = run_counters.RunCounters(
  mode="async",
  environment_steps=12_345,
  episodes=120,
  trainer_steps=1_500,
  variables_version=75,
  replay_size=3_000,
  wall_s=61.5,
  evaluations=3,
  eval_returns=[240.0, 211.5, 210.25],
  best_eval_return=240.0,
  evaluations_without_improvement=2,
  resumes=0,
  nodes={},
)


def write_run(
  config: ml_collections.ConfigDict, run_dir: pathlib.Path
) -> run_folder.RunFolder:
  """Makes the folder of a run, whose best variables are untrained."""
  folder = run_folder.RunFolder.create(run_dir, "a", overwrite=False)
  folder.write_config(config)
  spec = factory.make_spec(config.environment)
  learner = registry.make_builder(config.agent).make_learner(config, spec)
  best_variables.save(folder.best, 7, learner.get_variables(), outbox.Outbox())
  return folder
