"""Benchmark `worker`: environment steps per CPU second, and Acme's."""

import ml_collections

from benchmarks import collecting, goal, processes, report
from slipway.configs import apex_dqn

GOAL = 15_000.0  # environment steps per CPU second
ACME_GOAL = 8.0  # times Acme's

_METHOD = """\
One worker process steps CartPole-v1, acts epsilon-greedily (0.05) by an MLP of
64-64 units whose variables stay, forms 3-step transitions and writes them to a
Reverb server in another process, whose table never blocks. `slipway`: 16
environments at once, with initial priorities, through
`slipway.launch.nodes.collector` and `slipway.replay.items.writer`. `acme`: one
environment, through Acme's own EnvironmentLoop, FeedForwardActor and
NStepTransitionAdder, as its DQN agent puts them together.
Both on the same packages, one thread each for TensorFlow and NumPy. The two
alternate, each repetition in fresh processes; medians of {runs} repetitions,
ratios within a repetition. CPU time is that of all threads of the worker's
process; the server's is listed separately. Acme's adder begins each episode
with two more, shorter transitions: see the items per step."""


def make_config() -> ml_collections.ConfigDict:
  """Returns the config with which Slipway and Acme are measured."""
  config = apex_dqn.get_config("cartpole")
  config.network.dueling = False
  config.exploration.schedule = "linear"
  config.exploration.epsilon_start = 0.05
  config.exploration.epsilon_end = 0.05
  config.replay.samples_per_insert = 0.0  # nothing samples: must not block
  config.replay.transitions_per_item = 1  # as Acme's adder writes them
  config.topology.environments_per_worker = 16
  return config


def measure(
  runs: int, ours_steps: int = 200_000, acme_steps: int = 10_000
) -> report.Report:
  """Measures Slipway's worker and Acme's actor, alternately.

  Args:
    runs: repetitions of each side.
    ours_steps: environment steps per repetition of Slipway.
    acme_steps: environment steps per repetition of Acme.
  """
  config = make_config()
  sides = {
    "slipway": (collecting.serve_ours, collecting.collect_ours, ours_steps),
    "acme": (collecting.serve_acme, collecting.collect_acme, acme_steps),
  }
  raw = []
  for repetition in range(runs):
    for side, (serve, collect, steps) in sides.items():
      with processes.serving(serve, config) as (pid, address):
        collected = processes.call(
          collect,
          *(config, address, pid, steps // 10, steps),
          environment=processes.ONE_THREAD,
        )
      raw.append({"repetition": repetition, "side": side, **collected.row()})
  medians = [
    {
      "worker": side,
      "steps per CPU s": report.median(raw, "steps_per_cpu_s", side=side),
      "steps per wall s": report.median(raw, "steps_per_wall_s", side=side),
      "items a step": report.median(raw, "items_per_step", side=side),
      "server's CPU us a step": report.median(
        raw, "server_cpu_us_per_step", side=side
      ),
    }
    for side in sides
  ]
  sides_of = {"of": {"side": "slipway"}, "to": {"side": "acme"}}
  cpu = report.ratio(raw, "steps_per_cpu_s", **sides_of)
  steps = report.median(raw, "steps_per_cpu_s", side="slipway")
  wall = report.ratio(raw, "steps_per_wall_s", **sides_of)
  return report.Report(
    name="worker",
    title="One worker: environment steps per CPU second",
    method=_METHOD.format(runs=runs),
    raw=raw,
    medians=medians,
    goals=[
      goal.at_least(
        f"{cpu:.1f} times Acme's steps per CPU second, goal at least "
        f"{ACME_GOAL:g}",
        cpu,
        ACME_GOAL,
      ),
      goal.at_least(
        f"{steps:,.0f} environment steps per CPU second, goal at least "
        f"{GOAL:,.0f}",
        steps,
        GOAL,
      ),
      f"{wall:.1f} times its steps per wall-clock second.",
    ],
  )
