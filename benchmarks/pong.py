"""Benchmark `pong`: frames through one worker alone and the whole program."""

import pathlib
import tempfile

import ml_collections

from benchmarks import collecting, processes, report, whole_run
from slipway.configs import apex_dqn

_METHOD = """\
ALE/Pong-v5, 84x84 frames, 4 stacked and 4 skipped; steps are the agent's.
`worker`: one worker process with 8 environments acts by the Nature CNN
(dueling, variables that stay) and writes 3-step transitions to a Reverb server
in another process, whose table never blocks; medians of {runs} repetitions,
each in fresh processes. `program`: one `slipway train
--config=apex_dqn:pong` of {limit_s:.0f} s with `replay.min_size` at
{min_size:,}, so that it learns within that time; the rates are over its
learning. Memory is the proportional set size (PSS) of all its processes."""

_WORKER = (
  ("env_steps_per_s", "steps_per_wall_s"),
  ("env_steps_per_cpu_s", "steps_per_cpu_s"),
  ("server_cpu_us_per_step", "server_cpu_us_per_step"),
)


def make_config() -> ml_collections.ConfigDict:
  """Returns the config of the worker that is measured alone."""
  config = apex_dqn.get_config("pong")
  config.replay.samples_per_insert = 0.0  # nothing samples: must not block
  config.replay.capacity = 20_000
  config.topology.environments_per_worker = 8
  return config


def measure(
  runs: int,
  steps: int = 8_000,
  limit_s: float = 90.0,
  min_size: int = 2_000,
  overrides: tuple[str, ...] = (),
) -> report.Report:
  """Measures one worker alone, then a whole run.

  Args:
    runs: repetitions with the worker.
    steps: environment steps per repetition.
    limit_s: wall-clock limit of the run, in seconds.
    min_size: transitions before the run's first update.
    overrides: further flags of the run.
  """
  raw = []
  for repetition in range(runs):
    worker = _measure_worker(steps)
    raw += [
      _row("worker", repetition, name, worker[column])
      for name, column in _WORKER
    ]
  with tempfile.TemporaryDirectory() as folder:
    watched = whole_run.run(
      "apex_dqn:pong",
      [f"--config.replay.min_size={min_size}", *overrides],
      limit_s,
      pathlib.Path(folder),
      "pong",
      may_reach_limit=True,
    )
  raw += [_row("program", 0, name, value) for name, value in _program(watched)]
  parts = dict.fromkeys((row["part"], row["quantity"]) for row in raw)
  return report.Report(
    name="pong",
    title="Pong: the Nature CNN on frames",
    method=_METHOD.format(runs=runs, limit_s=limit_s, min_size=min_size),
    raw=raw,
    medians=[
      {
        "part": part,
        "quantity": quantity,
        "value": _median(raw, part, quantity),
      }
      for part, quantity in parts
    ],
    goals=[],
  )


def _measure_worker(steps: int) -> dict[str, float]:
  """Measures one worker, in new processes, over some environment steps."""
  config = make_config()
  with processes.serving(collecting.serve_ours, config) as (pid, address):
    return processes.call(
      collecting.collect_ours,
      *(config, address, pid, steps // 10, steps),
      environment=processes.ONE_THREAD,
    ).row()


def _program(watched: whole_run.Watched) -> list[tuple[str, float | None]]:
  """Returns the measured quantities of a whole run, with their values."""
  summary = watched.summary
  return [
    *(
      (name, getattr(summary, name))
      for name in ("start_up_s", "wall_s", "env_steps", "trainer_steps")
    ),
    ("env_steps_per_s", summary.rates.mean_env_steps_per_s),
    ("trainer_steps_per_s", summary.rates.mean_trainer_steps_per_s),
    (
      "samples_per_insert",
      summary.replay and summary.replay.samples_per_insert,
    ),
    ("variables_age_s", summary.variables.mean_age_s),
    ("processes", watched.processes),
    ("memory_mean_mib", watched.mean_mib),
    ("memory_peak_mib", watched.peak_mib),
  ]


def _row(part, repetition, quantity, value) -> dict:
  return {
    "part": part,
    "repetition": repetition,
    "quantity": quantity,
    "value": value,
  }


def _median(raw, part: str, quantity: str) -> float | None:
  """Returns the median of a quantity; None if it has no values."""
  rows = [row for row in raw if row["value"] is not None]
  if not any(
    row["part"] == part and row["quantity"] == quantity for row in rows
  ):
    return None  # a run that ended before it learned has no rates
  return report.median(rows, "value", part=part, quantity=quantity)
