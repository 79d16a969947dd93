"""Makes sweeps and their runs for the tests."""

import pathlib

import numpy as np

from slipway.configs import dqn
from slipway.launch.runs import curves, records, run_status
from slipway.launch.sweeps import plan, scoring, space, study
from slipway.launch.sweeps import runs as runs_lib

_ARGUMENTS = ["--config=apex_dqn:cartpole", "--config.limits.trainer_steps=5"]


def make_plan(vary, *flags):
  return plan.Plan([*_ARGUMENTS, *(f"--vary={x}" for x in vary), *flags], ".")


def make_sweep(path, vary, *flags):
  """Returns a new sweep with all its settings, in an existing folder."""
  sweep = study.Study(path, make_plan(vary, *flags))
  sweep.write_plan()
  config = dqn.get_config()
  config.limits.environment_steps = 1_000
  for params in sweep.plan.list_first_settings():
    sweep.add(params, config)
  return sweep


def complete(sweep, index, score):
  sweep.complete_settings(dict.fromkeys(sweep.list_runs(index), score))


def make_settings(*vary):
  axes = space.parse(vary)
  return [space.to_setting(axes, params) for params in space.make_grid(axes)]


def make_runs(setting, *normalized, is_done=True, path="none"):
  return [
    scoring.RunScore(
      runs_lib.SweepRun(pathlib.Path(path), setting, seed),
      score=10.0,
      human_normalized=score,
      best=12.0,
      env_steps=100.0,
      wall_s=1.0,
      target_steps=np.nan,
      held=np.nan,
      is_done=is_done,
    )
    for seed, score in enumerate(normalized, 1)
  ]


def write_curves(run, returns, period=1_000):
  lines = [",".join(curves.COLUMNS)]
  for index, value in enumerate(returns):
    row = dict.fromkeys(curves.COLUMNS, 1.0)
    row |= {"env_steps": period * index, "eval_return": value}
    lines.append(",".join(str(row[name]) for name in curves.COLUMNS))
  run.folder.path.mkdir(exist_ok=True)
  run.folder.curves_csv.write_text("\n".join(lines) + "\n")


def write_summary(run, **status):
  summary = run_status.RunStatus(**{"stopped_because": "SIGINT", **status})
  run.folder.path.mkdir(exist_ok=True)
  run.folder.summary.write_bytes(records.to_json(summary))
