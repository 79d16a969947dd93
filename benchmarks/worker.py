"""Benchmark `worker`: environment steps per CPU second, and Acme's."""

import json
import os
import subprocess

import ml_collections

from benchmarks import collected, collecting, goal, machine, processes, report
from benchmarks.peers import entries, installation
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
NStepTransitionAdder, as its DQN agent puts them together, on the last packages
with its Launchpad (benchmarks/peers/acme/requirements.txt, CPython 3.10).
Both have one thread each for TensorFlow and NumPy. The two
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
    "slipway": (_collect_ours, ours_steps),
    "acme": (_collect_acme, acme_steps),
  }
  raw = []
  for repetition in range(runs):
    for side, (collect, steps) in sides.items():
      row = collect(config, steps // 10, steps).row()
      raw.append({"repetition": repetition, "side": side, **row})
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


def _collect_ours(
  config: ml_collections.ConfigDict, warm_up_steps: int, steps: int
) -> collected.Collected:
  """Collects by a Slipway worker in a new process."""
  with processes.serving(collecting.serve_ours, config) as (pid, address):
    return processes.call(
      collecting.collect_ours,
      *(config, address, pid, warm_up_steps, steps),
      environment=processes.ONE_THREAD,
    )


def _collect_acme(
  config: ml_collections.ConfigDict, warm_up_steps: int, steps: int
) -> collected.Collected:
  """Collects by Acme's actor in a new process, with Acme's packages."""
  (entry, *_) = (peer for peer in entries.PEERS if peer.folder == "acme")
  done = subprocess.run(
    [
      installation.install_for(entry),
      entries.FOLDER / "acme" / "actor.py",
      f"--environment={config.environment.name}",
      f"--hidden_sizes={json.dumps(list(config.network.hidden_sizes))}",
      f"--capacity={config.replay.capacity}",
      f"--priority_exponent={config.replay.priority_exponent}",
      f"--n_step={config.adder.n_step}",
      f"--discount={config.adder.discount}",
      f"--epsilon={config.exploration.epsilon_end}",
      f"--warm_up_steps={warm_up_steps}",
      f"--steps={steps}",
    ],
    env={
      **os.environ,
      **processes.ONE_THREAD,
      "PYTHONPATH": str(machine.ROOT),
      "TF_CPP_MIN_LOG_LEVEL": "3",
    },
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  )
  return collected.Collected(**json.loads(done.stdout.splitlines()[-1]))
