"""Benchmark `rounds`: the cost of a round of `sync` beyond its work."""

import pathlib
import statistics
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

_CONFIG = "ppo:cartpole"
_FLAGS = (
  f"--config={_CONFIG}",
  "--config.limits.target_return=inf",
  "--config.evaluation.period_steps=1_000_000_000",
)

_METHOD = """\
`slipway train --config={config}`, one worker, without evaluations. A round
collects 8 x 32 environment steps and learns from them in 20 epochs. In mode
`single`, one process does all of this, so the duration of its rounds is that of
the work. In mode `sync`, the items go through a proxy and a server to the
trainer, and the variables back to the worker; the difference of the durations
is what both hand-overs of a round cost. The two modes alternate, for
{seconds:g} s each after 2 s of steady progress. Acting: a call of the actor for
{environments} observations of CartPole, MLP 64-64, on one thread. Medians of
{runs} repetitions, differences and ratios within a repetition."""


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
    work_ms, round_ms = (
      _measure_round_ms(mode, seconds) for mode in ("single", "sync")
    )
    raw.append(
      {
        "repetition": repetition,
        "work_ms": work_ms,
        "round_ms": round_ms,
        "hand_over_ms": round_ms - work_ms,
        "share": 1 - work_ms / round_ms,
        "acting_us": processes.call(
          _measure_acting_us, calls, environment=processes.ONE_THREAD
        ),
      }
    )
  medians = {
    column: statistics.median(row[column] for row in raw)
    for column in raw[0]
    if column != "repetition"
  }
  hand_over_ms, share = medians["hand_over_ms"], medians["share"]
  return report.Report(
    name="rounds",
    title="Rounds of `sync`: what the hand-overs cost",
    method=_METHOD.format(
      config=_CONFIG, seconds=seconds, environments=ENVIRONMENTS, runs=runs
    ),
    raw=raw,
    medians=[
      {
        "work, ms": medians["work_ms"],
        "round, ms": medians["round_ms"],
        "hand-overs, ms": hand_over_ms,
        "hand-overs, share of a round": share,
        "acting, us per call": medians["acting_us"],
      }
    ],
    goals=[
      goal.at_most(
        f"both hand-overs of a round take {hand_over_ms:.1f} ms, goal at most "
        f"{HAND_OVER_GOAL_MS:g} ms",
        max(0.0, hand_over_ms),
        HAND_OVER_GOAL_MS,
      ),
      goal.at_most(
        f"{share:.0%} of a round is neither collection nor learning, goal at "
        f"most {IDLE_GOAL:.0%}",
        max(0.0, share),
        IDLE_GOAL,
      ),
      goal.at_most(
        f"acting for {ENVIRONMENTS} environments takes "
        f"{medians['acting_us']:.0f} us, goal at most {ACTING_GOAL_US:g} us",
        medians["acting_us"],
        ACTING_GOAL_US,
      ),
    ],
  )


def _measure_round_ms(mode: str, seconds: float) -> float:
  """Returns the mean duration of a round in a mode, in milliseconds."""
  from slipway.configs import ppo

  config = ppo.get_config("cartpole")
  steps = config.learner.batch_size * config.adder.unroll
  with tempfile.TemporaryDirectory() as folder:
    flags = [*_FLAGS, f"--mode={mode}", f"--run_dir={folder}", f"--name={mode}"]
    with running.start_run(flags, pathlib.Path(folder) / mode) as run:
      run.watch_until_progress()
      first = run.statuses[-1]
      run.watch(seconds)
      last = run.statuses[-1]
  rounds = (last.counts["env_steps"] - first.counts["env_steps"]) / steps
  return 1e3 * (last.at_s - first.at_s) / rounds


def _measure_acting_us(calls: int) -> float:
  """Returns the mean duration of a call of the actor, in microseconds."""
  import numpy as np

  from slipway.agents import registry
  from slipway.configs import ppo
  from slipway.environments import factory

  config = ppo.get_config("cartpole")
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  actor = builder.make_actor(config, spec, worker=0)
  actor.load(builder.make_learner(config, spec).get_variables())
  inputs = (
    np.random.default_rng(1).normal(size=(ENVIRONMENTS, 4)).astype(np.float32),
    np.ones(ENVIRONMENTS, np.float32),
    np.zeros(ENVIRONMENTS, bool),
  )
  for _ in range(_WARM_UP_CALLS):
    actor.act(*inputs)
  return 1e6 * timeit.timeit(lambda: actor.act(*inputs), number=calls) / calls
