"""Makes plans and runs of sweeps for the tests."""

import pathlib

import numpy as np

from slipway.launch.runs import curves, run_folder
from slipway.launch.sweeps import scoring, sweep_folder


def make_plan(settings, seeds):
  return sweep_folder.Plan(
    flags=[],
    working_folder="",
    vary=[],
    search="grid",
    search_seed=0,
    max_settings=1,
    seeds=seeds,
    settings=settings,
  )


def make_runs(setting, *normalized, is_done=True, path="none"):
  folder = run_folder.RunFolder(pathlib.Path(path))
  return [
    scoring.RunScore(
      sweep_folder.SweepRun(setting, seed, folder, pathlib.Path("none.log")),
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


def write_curves(folder, returns, period=1_000):
  lines = [",".join(curves.COLUMNS)]
  for index, value in enumerate(returns):
    row = dict.fromkeys(curves.COLUMNS, 1.0)
    row |= {"env_steps": period * index, "eval_return": value}
    lines.append(",".join(str(row[name]) for name in curves.COLUMNS))
  folder.curves_csv.write_text("\n".join(lines) + "\n")
