"""Counters in the snapshot of a run that has trained for a while."""

from slipway.launch.runs import run_counters

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
  lost=run_counters.Losses(),
  nodes={},
)
