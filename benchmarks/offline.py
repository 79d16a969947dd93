r"""Offline: updates per second and returns of learning from recorded episodes.

  python -m benchmarks.offline --data=FOLDER --environment=Pendulum-v1 \
    --algorithms=iql,td3_bc

Beside d3rlpy, on the same episodes, with the same network and batch size, and
one thread each. The libraries alternate; each repetition has another seed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import ml_collections

from benchmarks import command_line, machine, processes, report
from benchmarks.peers import installation
from slipway.configs import catalog

_PEER = machine.ROOT / "benchmarks" / "peers" / "d3rlpy"
_ALGORITHMS = (
  *("bc", "cql", "bcq"),
  *("iql", "crr", "td3_bc", "rebrac", "cql_sac"),
)
_LIBRARIES = ("slipway", "d3rlpy")
_WARM_UP = 100  # updates before the measured ones
_EPISODES = 50  # of the final policy
_PLAY_SEED = 2_000_000

_METHOD = """\
`python -m benchmarks.offline {arguments}`: {runs} repetitions, one seed each,
in which Slipway and d3rlpy 2.8.1 alternate. Both have one core and one thread,
and the first {warm_up} updates are not measured. Medians; ratios within a
repetition. CPU time is that of the process: on a busy machine it varies less
than updates per second. d3rlpy has its own values, but the same layers, batch
size and number of critics. On a fixed batch, the same learner repeats the
updates with one unpacked batch."""


def measure_slipway(
  config: ml_collections.ConfigDict, updates: int, plays: bool
) -> dict[str, typing.Any]:
  """Trains in this process, and plays the final policy.

  Args:
    updates: number of updates, warm-up included.
    plays: whether to play.

  Returns:
    Seconds and CPU seconds of the updates after the warm-up. If it plays, the
    mean return, else CPU seconds of as many updates on a fixed batch, or None.
  """
  from slipway.agents import registry
  from slipway.agents.updates import recorded_updates
  from slipway.environments import factory
  from slipway.launch.nodes import evaluation

  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  builder.check(config, spec)
  learner = builder.make_learner(config, spec)
  with tempfile.TemporaryDirectory() as folder:
    source = recorded_updates.RecordedUpdates(
      learner, config, spec, builder, folder
    )
    source.run(_WARM_UP)
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    while (rest := updates - int(learner.steps)) > 0:
      source.run(min(rest, config.learner.steps_per_call))
    wall_s = time.monotonic() - began_s
    cpu_s = time.process_time() - began_cpu_s
    fixed_cpu_s = None
    if not plays:
      fixed_cpu_s = _measure_fixed(learner, config, spec, builder, updates)
  found = {
    "wall_s": wall_s,
    "cpu_s": cpu_s,
    "fixed_cpu_s": fixed_cpu_s,
    "mean_return": None,
  }
  if plays:
    actor = builder.make_greedy_actor(config, spec)
    actor.load(learner.get_variables())
    played = evaluation.play(
      factory.make(config.environment, _EPISODES, _PLAY_SEED), actor, _EPISODES
    )
    assert played is not None
    found["mean_return"] = sum(played.returns) / _EPISODES
  return found


def _measure_fixed(learner, config, spec, builder, updates: int) -> float:
  """Returns the CPU seconds of updates on one batch, without the warm-up."""
  import tensorflow as tf

  from slipway.agents import recorded_items
  from slipway.agents.updates import graph_loop
  from slipway.replay.tables import dataset

  with tempfile.TemporaryDirectory() as folder:
    table, items = recorded_items.collect(config, spec, builder, folder)
  size = table.batch_size
  batch = dataset.make_batch(
    table.schema,
    tf.zeros(size, tf.uint64),
    tf.fill([size], tf.constant(1.0 / len(items), tf.float64)),
    tf.fill([size], tf.constant(len(items), tf.int64)),
    tf.constant(items[:size].reshape(size, *table.schema.item_shape)),
  )
  loop = graph_loop.GraphLoop(learner, table)
  run = tf.function(lambda count: loop.run(lambda _: batch, count).metrics)
  run(tf.constant(_WARM_UP))
  began_cpu_s = time.process_time()
  for first in range(_WARM_UP, updates, config.learner.steps_per_call):
    run(tf.constant(min(config.learner.steps_per_call, updates - first)))
  return time.process_time() - began_cpu_s


def measure(args: argparse.Namespace) -> report.Report:
  """Measures all algorithms, with alternating libraries.

  Raises:
    installation.NotInstalledError: d3rlpy can't be installed.
  """
  peer = installation.install(
    _PEER / "requirements.txt", "3.11", machine.ROOT / ".cache/peers/d3rlpy"
  )
  os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
  raw = []
  for algorithm in args.algorithms:
    for repetition in range(1, args.runs + 1):
      config = _make_config(args, algorithm, repetition)
      for library in _LIBRARIES:
        if library == "slipway":
          found = processes.call(
            measure_slipway,
            *(config, args.updates, args.plays),
            environment=processes.ONE_THREAD,
          )
        else:
          found = _measure_d3rlpy(peer, algorithm, config, args)
        updates = args.updates - _WARM_UP
        fixed_cpu_s = found.get("fixed_cpu_s")
        raw.append(
          {
            "algorithm": algorithm,
            "library": library,
            "repetition": repetition,
            "updates": args.updates,
            "updates_per_s": updates / found["wall_s"],
            "cpu_us_per_update": 1e6 * found["cpu_s"] / updates,
            "fixed_cpu_us": fixed_cpu_s and 1e6 * fixed_cpu_s / updates,
            "mean_return": found["mean_return"],
          }
        )
        print(raw[-1], file=sys.stderr, flush=True)
  return report.Report(
    name=f"offline_{args.environment.split('-')[0].lower()}",
    title=f"Learning from recorded episodes of {args.environment}",
    method=_METHOD.format(
      arguments=" ".join(sys.argv[1:]), runs=args.runs, warm_up=_WARM_UP
    ),
    raw=raw,
    medians=[_medians(raw, algorithm) for algorithm in args.algorithms],
    goals=(),
  )


def _make_config(
  args: argparse.Namespace, algorithm: str, seed: int
) -> ml_collections.ConfigDict:
  """Returns the config of a run: the preset 'cartpole', or 'generic'."""
  recipe = catalog.algorithms()[algorithm]
  is_cartpole = args.environment.startswith("CartPole")
  preset = "cartpole" if is_cartpole or algorithm == "bc" else "generic"
  if preset not in recipe.PRESETS:
    preset = "generic"
  config = recipe.get_config(preset)
  config.environment.name, config.seed = args.environment, seed
  config.dataset.path = str(args.data.resolve())
  if not is_cartpole:
    config.normalization.observations = True  # as d3rlpy, also for `bc`
  if args.units:
    layers = len(config.network.hidden_sizes)
    config.network.hidden_sizes = (args.units,) * layers
  return config


def _measure_d3rlpy(
  python: pathlib.Path,
  algorithm: str,
  config: ml_collections.ConfigDict,
  args: argparse.Namespace,
) -> dict[str, typing.Any]:
  """Returns the same as `measure_slipway`, by d3rlpy in its own process."""
  layers = map(str, config.network.hidden_sizes)
  done = subprocess.run(
    [
      *(str(python), str(_PEER / "program.py")),
      *(f"--algorithm={algorithm}", f"--data={config.dataset.path}"),
      f"--environment={args.environment}",
      *(f"--seed={config.seed}", f"--updates={args.updates}"),
      *(f"--warm_up={_WARM_UP}", f"--batch_size={config.learner.batch_size}"),
      *(["--plays"] if args.plays else []),
      *("--layers", *layers),
    ],
    env={**os.environ, **processes.ONE_THREAD},
    stdout=subprocess.PIPE,
    text=True,
    check=True,
  )
  return json.loads(done.stdout.splitlines()[-1])


def _medians(raw: list[report.Row], algorithm: str) -> report.Row:
  """Returns the row of medians of an algorithm, and the mean of its returns."""
  rows = [row for row in raw if row["algorithm"] == algorithm]
  found: dict[str, typing.Any] = {"algorithm": algorithm}
  for title, column in (
    ("updates/s", "updates_per_s"),
    ("CPU us per update", "cpu_us_per_update"),
  ):
    for library in _LIBRARIES:
      found[f"{title}, {library}"] = report.median(
        rows, column, library=library
      )
  slipway, d3rlpy = ({"library": library} for library in _LIBRARIES)
  found["times as fast"] = report.ratio(
    rows, "updates_per_s", of=slipway, to=d3rlpy
  )
  found["times as fast by CPU time"] = report.ratio(
    rows, "cpu_us_per_update", of=d3rlpy, to=slipway
  )
  own = [row for row in rows if row["library"] == "slipway"]
  if own[0]["fixed_cpu_us"] is not None:
    found["fixed / recorded, CPU time"] = statistics.median(
      row["fixed_cpu_us"] / row["cpu_us_per_update"] for row in own
    )
  for library in _LIBRARIES:
    returns = [row["mean_return"] for row in rows if row["library"] == library]
    if returns[0] is not None:
      found[f"returns, {library}"] = ", ".join(f"{x:.0f}" for x in returns)
  return found


def main() -> int:
  """Measures, and prints and writes the results; returns exit status 0."""
  parser = argparse.ArgumentParser(prog="benchmarks.offline")
  parser.add_argument(
    "--data",
    type=pathlib.Path,
    required=True,
    help="folder of episodes that `slipway record` has written",
  )
  parser.add_argument("--environment", required=True, help="their environment")
  parser.add_argument(
    "--algorithms",
    type=lambda text: command_line.names(text, _ALGORITHMS, "algorithm"),
    required=True,
    help=f"separated by commas, of {','.join(_ALGORITHMS)}",
  )
  command_line.add_count(parser, "--updates", 1_000, "updates of each run")
  command_line.add_count(parser, "--runs", 5, "runs of each library")
  parser.add_argument(
    "--units",
    type=command_line.positive,
    help="units of each hidden layer, in place of the preset's",
  )
  parser.add_argument(
    "--plays",
    action="store_true",
    help=f"whether each final policy plays {_EPISODES} episodes",
  )
  command_line.add_out(parser)
  args = parser.parse_args()
  head = machine.describe()
  done = measure(args)
  done.write(args.out, head)
  print(done.markdown(head))
  return 0


if __name__ == "__main__":
  sys.exit(main())
