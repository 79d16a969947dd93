"""Benchmark `rounds`: the cost of a round of `sync` beyond its work."""

import pathlib
import tempfile
import timeit

from benchmarks import goal, processes, report, running

HAND_OVER_GOAL_MS = 10.0
IDLE_GOAL = 0.1
ACTING_GOAL_US = 100.0

SECONDS = 10.0  # duration of one measurement of a mode
ENVIRONMENTS = 16  # observations per call of the actor
CALLS = 2_000  # calls of the actor per repetition
_WARM_UP_CALLS = 100

# Presets of PPO, and what a round of each is.
PRESETS = {
  "cartpole": "8 x 32 environment steps, 20 epochs of one minibatch",
  "halfcheetah": "8 x 256 environment steps, 10 epochs of 32 minibatches",
}
_FLAGS = (
  "--config.limits.target_return=inf",
  "--config.limits.environment_steps=0",
  "--config.limits.trainer_steps=1_000_000_000",
)
# No evaluations but that of the first policy, by mode.
_NO_EVALUATIONS = {
  "single": "--config.evaluation.period_steps=0",
  "sync": "--config.evaluation.period_s=1e6",
}

_METHOD = """\
`slipway train --config=ppo:PRESET`, one worker, without evaluations. In mode
`single`, one process collects and learns, so the duration of its rounds is that
of the work. In mode `sync`, the items go through a proxy and a server to the
trainer, and the variables back to the worker; the difference of the durations
is what both hand-overs of a round cost. It is negative where `sync` is faster,
as its processes have caches and threads of their own. The two modes alternate,
for {seconds:g} s each after 2 s of steady progress. Acting: a call of the actor
for {environments} observations, MLP 64-64, on one thread. Medians of {runs}
repetitions, differences and ratios within a repetition."""


def measure(
  runs: int, seconds: float = SECONDS, calls: int = CALLS
) -> report.Report:
  """Measures rounds of both modes, alternately, and the actor.

  Args:
    runs: repetitions.
    seconds: duration of one measurement of a mode.
    calls: calls of the actor per repetition.
  """
  raw = []
  for repetition in range(runs):
    for preset in PRESETS:
      work_ms, round_ms = (
        _measure_round_ms(preset, mode, seconds) for mode in ("single", "sync")
      )
      raw.append(
        {
          "preset": preset,
          "repetition": repetition,
          "work_ms": work_ms,
          "round_ms": round_ms,
          "hand_over_ms": round_ms - work_ms,
          "share": 1 - work_ms / round_ms,
          "acting_us": processes.call(
            _measure_acting_us,
            preset,
            calls,
            environment=processes.ONE_THREAD,
          ),
        }
      )
  rows = [_summarize(raw, preset) for preset in PRESETS]
  return report.Report(
    name="rounds",
    title="Rounds of `sync`: what the hand-overs cost",
    method=_METHOD.format(
      seconds=seconds, environments=ENVIRONMENTS, runs=runs
    ),
    raw=raw,
    medians=rows,
    goals=[line for row in rows for line in _compare_with_goals(row)],
  )


def _summarize(raw: list[report.Row], preset: str) -> report.Row:
  """Returns the row of medians of a preset, by title of the column."""
  titles = {
    "work, ms": "work_ms",
    "round, ms": "round_ms",
    "hand-overs, ms": "hand_over_ms",
    "hand-overs, share of a round": "share",
    "acting, us per call": "acting_us",
  }
  return {
    "preset": preset,
    "round": PRESETS[preset],
    **{
      title: report.median(raw, column, preset=preset)
      for title, column in titles.items()
    },
  }


def _compare_with_goals(row: report.Row) -> list[str]:
  """Returns a sentence per goal, with the medians of a preset."""
  preset, hand_over_ms = row["preset"], row["hand-overs, ms"]
  share, acting_us = (
    row["hand-overs, share of a round"],
    row["acting, us per call"],
  )
  return [
    goal.at_most(
      f"{preset}: both hand-overs of a round take {hand_over_ms:.1f} ms, goal "
      f"at most {HAND_OVER_GOAL_MS:g} ms",
      max(0.0, hand_over_ms),
      HAND_OVER_GOAL_MS,
    ),
    goal.at_most(
      f"{preset}: {share:.0%} of a round is neither collection nor learning, "
      f"goal at most {IDLE_GOAL:.0%}",
      max(0.0, share),
      IDLE_GOAL,
    ),
    goal.at_most(
      f"{preset}: acting for {ENVIRONMENTS} environments takes "
      f"{acting_us:.0f} us, goal at most {ACTING_GOAL_US:g} us",
      acting_us,
      ACTING_GOAL_US,
    ),
  ]


def _measure_round_ms(preset: str, mode: str, seconds: float) -> float:
  """Returns the mean duration of a round in a mode, in milliseconds."""
  from slipway.configs import ppo

  config = ppo.get_config(preset)
  steps = config.learner.batch_size * config.adder.unroll
  with tempfile.TemporaryDirectory() as folder:
    flags = [f"--config=ppo:{preset}", *_FLAGS, f"--mode={mode}"]
    flags += [f"--run_dir={folder}", f"--name={mode}", _NO_EVALUATIONS[mode]]
    with running.start_run(flags, pathlib.Path(folder) / mode) as run:
      run.watch_until_progress()
      first = run.statuses[-1]
      run.watch(seconds)
      last = run.statuses[-1]
  rounds = (last.counts["env_steps"] - first.counts["env_steps"]) / steps
  return 1e3 * (last.at_s - first.at_s) / rounds


def _measure_acting_us(preset: str, calls: int) -> float:
  """Returns the mean duration of a call of the actor, in microseconds."""
  import numpy as np

  from slipway.agents import registry
  from slipway.configs import ppo
  from slipway.environments import factory

  config = ppo.get_config(preset)
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  actor = builder.make_actor(config, spec, worker=0)
  actor.load(builder.make_learner(config, spec).get_variables())
  inputs = (
    np.random.default_rng(1)
    .normal(size=(ENVIRONMENTS, *spec.observations.shape))
    .astype(np.float32),
    np.ones(ENVIRONMENTS, np.float32),
    np.zeros(ENVIRONMENTS, bool),
  )
  for _ in range(_WARM_UP_CALLS):
    actor.act(*inputs)
  return 1e6 * timeit.timeit(lambda: actor.act(*inputs), number=calls) / calls
