"""Benchmark `snapshot`: trainer time that a snapshot of a large table costs."""

import pathlib
import tempfile
import time

from benchmarks import filling, goal, processes, report
from benchmarks import trainer as trainer_benchmark
from slipway.configs import apex_dqn
from slipway.launch.processes import processors

GOAL_S = 2.0  # that the trainer may stand still
ITEMS = 1_000_000

_LEARN_S = 3.0  # before each snapshot
_FINISH_S = 120.0

_METHOD = """\
One process is the trainer of a run of `apex_dqn:cartpole` and hosts
its table of {items:,} transitions, drawn from at random and with priorities
of their own. It learns for {learn:.0f} s, and then writes a snapshot: learner,
counters, and the table with all priorities. It stands still until nothing that
it learns afterwards can get into the snapshot (`standing still`), and goes on
while the rest is compressed and brought to the disk (`until it is whole`).
{runs} repetitions in one process."""


def measure_process(items: int, runs: int, folder: str) -> list[report.Row]:
  """Measures the trainer's time for snapshots in this process, a row each.

  Args:
    items: items in the table.
    runs: number of snapshots.
    folder: folder of the run.

  Returns:
    One row per snapshot.
  """
  from slipway.agents import registry
  from slipway.agents.updates import replay_updates
  from slipway.environments import factory
  from slipway.launch.control import rates as rates_lib
  from slipway.launch.control import run_control
  from slipway.launch.nodes import addresses, snapshot_writer
  from slipway.launch.nodes import replay as replay_node
  from slipway.launch.nodes import trainer as trainer_lib
  from slipway.launch.runs import run_folder, snapshot_store
  from slipway.replay.variables import variables

  config = apex_dqn.get_config("cartpole")
  config.replay.transitions_per_item = 1  # the most items
  config.replay.update(
    {"capacity": items, "min_size": 1_000, "samples_per_insert": 0.0}
  )
  config.snapshot.keep = 1
  place = run_folder.RunFolder.create(folder, "run", overwrite=False)
  spec = factory.make_spec(config.environment)
  port = addresses.reserve_port()
  address = f"localhost:{port.getsockname()[1]}"
  table = filling.make_table_spec(config)
  rates = rates_lib.Rates(config, table)
  control = run_control.RunControl(
    config, place, {"trainer": 1, "worker": 1}, time.time(), rates
  )
  hosted = replay_node.HostedTables(config, spec, place, None, address, None)
  trainer_benchmark.fill(address, config, spec, items)
  learner = registry.make_builder(config.agent).make_learner(config, spec)
  trainer = trainer_lib.Trainer(
    config,
    rates,
    learner,
    replay_updates.ReplayUpdates(learner, table, table.limiter, [address]),
    variables.VariablesPublisher(address),
  )
  store = snapshot_store.open_store(config, place)
  writer = snapshot_writer.SnapshotWriter(
    config, place, learner, [address], control, store
  )
  rows = []
  for repetition in range(runs):
    before = _learn(trainer, lambda: False)
    began_s = time.monotonic()
    writer.start(trainer.version)
    stood_s = time.monotonic() - began_s
    during = _learn(trainer, lambda: writer.writing)
    writer.wait(_FINISH_S)
    whole_s = time.monotonic() - began_s
    size = sum(path.stat().st_size for path in place.snapshots.rglob("*"))
    rows.append(
      {
        "repetition": repetition,
        "items": items,
        "standing_still_s": stood_s,
        "whole_after_s": whole_s,
        "updates_per_s_before": before,
        "updates_per_s_during": during,
        "mb": size / 1e6,
      }
    )
  trainer.close()
  hosted.close()
  return rows


def measure(runs: int, items: int = ITEMS) -> report.Report:
  """Measures the trainer's time for snapshots of a large table.

  Args:
    runs: number of snapshots.
    items: items in the table.
  """
  with tempfile.TemporaryDirectory() as folder:
    raw = processes.call(
      measure_process,
      items,
      runs,
      str(pathlib.Path(folder)),
      environment=processors.make_thread_variables(1),
    )
  slowest_s = max(row["standing_still_s"] for row in raw)
  return report.Report(
    name="snapshot",
    title="Snapshots: how long the trainer stands still",
    method=_METHOD.format(items=items, learn=_LEARN_S, runs=runs),
    raw=raw,
    medians=[
      {
        "transitions": f"{items:,}",
        "standing still, s": report.median(raw, "standing_still_s"),
        "slowest, s": slowest_s,
        "until it is whole, s": report.median(raw, "whole_after_s"),
        "updates/s before": report.median(raw, "updates_per_s_before"),
        "updates/s meanwhile": report.median(raw, "updates_per_s_during"),
        "MB on disk": report.median(raw, "mb"),
      }
    ],
    goals=[
      goal.at_most(
        f"the trainer stood still for {slowest_s:.2f} s in the slowest "
        f"repetition, goal at most {GOAL_S:.0f} s",
        slowest_s,
        GOAL_S,
      )
    ],
  )


def _learn(trainer, going_on) -> float:
  """Makes updates for some seconds, and until a condition is false.

  Args:
    trainer: the trainer.
    going_on: function that returns whether to make more updates.

  Returns:
    Updates per second.
  """
  began_s, before = time.monotonic(), trainer.step()
  while True:
    steps, passed_s = trainer.step(), time.monotonic() - began_s
    if passed_s >= _LEARN_S and not going_on():
      return (steps - before) / passed_s
