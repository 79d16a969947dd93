"""Measures a run's components, and plans clusters from their capacities."""

import dataclasses
import os
from collections.abc import Sequence

import ml_collections

from benchmarks import filling, report
from benchmarks.scale import plans, rig
from slipway.launch.checks import overrides

CONFIG = "apex_dqn:cartpole"
FOLDER = "scale"  # of its results
SHARDS = (1, 2, 4, 8)
CORES_PER_MACHINE = 8
# Workers and machines of which the page says what they demand.
CLUSTERS = ((50, 1), (200, 4), (1_000, 20))

_METHOD = """\
The capacity of one process of each component with `{config}`: items that add
{sent_bytes:,} bytes to their stream, {batch_size} items per batch, and
variables of {variables_kb:,.0f} kB. The replay server has its own process, a
full table and a limiter that never blocks. Each other component is measured
with this server only, on {cores} cores that they share.
*inserted*: raw Reverb writers of noise, of at
most 32 items in flight each, on so many streams of {writers} processes.
*relayed*: the same through a WorkerProxy. *sampled*: by the trainer's dataset,
priorities pushed back, nothing learned. *fetched*: versions of the variables,
as a proxy does. *copied*: the same out of shared memory, as a worker does.
*trained*: updates of the config's learner. *stepped*: environment steps of a
worker, with a server of its own.

*busy* are the cores that the component used: those of the server if items or
variables are inserted, sampled or fetched, else those of the process itself.
The *capacity* is the measured rate, or the rate with one full core if less than
one core was used. That of a worker and its copies is the rate per CPU second;
that of the trainer is its measured rate. Medians of {runs} repetitions of
{window_s:g} s.

The plan: a worker has a core, of {cores_per_machine} a machine, and the proxy
of that machine what it needs. An insert comes with {ratio:g} samples; replay
servers share both evenly, with one core each; the trainer has a machine like
this one. *variables*: on so many machines every version arrives; on more, some
are skipped. Beyond the component that saturates first, more workers only
wait.

The last table: workers with a core each at full speed. *trainers*: how many of
them the config's ratio of samples to inserts demands; *samples per insert*: the
ratio that one of them reaches, for which the shards are counted."""


def measure(
  runs: int,
  config_path: str = CONFIG,
  cores_per_machine: int = CORES_PER_MACHINE,
  effort: rig.Effort | None = None,
) -> report.Report:
  """Measures all components, and makes plans from their capacities.

  Args:
    runs: repetitions of each measurement.
    config_path: 'FILE:PRESET'.
    cores_per_machine: cores of a machine with workers.
    effort: duration of each measurement; None: the default.

  Raises:
    ValueError: the config can't be read, or has no fixed ratio.
  """
  effort = effort or rig.Effort()
  config = load(config_path)
  raw, shape = rig.measure(config, runs, effort)
  work = plans.Work(
    shape.steps_per_item,
    config.replay.samples_per_insert,
    shape.batch_size,
    config.variables.publish_period,
  )
  carried = _carried(raw)
  found = [
    plans.make_plan(carried, work, shards, cores_per_machine)
    for shards in SHARDS
  ]
  sizes = plans.Sizes(shape.sent_bytes, shape.item_bytes, shape.variables_bytes)
  cores = len(os.sched_getaffinity(0))
  predicted = plans.predict_one_machine(
    _cpu_s(raw), carried.updates_per_s, work, cores
  )
  return report.Report(
    name=_name(config_path),
    title=f"Larger clusters: plans for `{config_path}`",
    method=_METHOD.format(
      config=config_path,
      sent_bytes=shape.sent_bytes,
      batch_size=shape.batch_size,
      variables_kb=shape.variables_bytes / 1e3,
      cores=cores,
      runs=runs,
      cores_per_machine=cores_per_machine,
      ratio=config.replay.samples_per_insert,
      **dataclasses.asdict(effort),
    ),
    raw=raw,
    medians=_medians(raw),
    more=[
      [_plan_row(plan) for plan in found],
      [
        _demand_row(plans.make_demand(carried, work, sizes, *cluster))
        for cluster in CLUSTERS
      ],
    ],
    goals=[
      *(_describe_plan(plan, cores_per_machine) for plan in found),
      f"Predicted for all components on {cores} cores of this machine: "
      f"{predicted:,.0f} environment steps per second.",
    ],
  )


def load(config_path: str) -> ml_collections.ConfigDict:
  """Loads a config for which plans can be made; raises like `measure`.

  Args:
    config_path: 'FILE:PRESET'.
  """
  config = overrides.load(config_path)
  if filling.make_table_spec(config).is_queue:
    raise ValueError(
      f"config.agent={config.agent!r} learns from each item once, so no ratio "
      "relates its trainer to its workers: choose an algorithm with replay"
    )
  plans.check_ratio(config.replay.samples_per_insert)
  return config


def _name(config_path: str) -> str:
  """Returns a config's file name, such as 'apex_dqn_cartpole'."""
  file, _, preset = config_path.partition(":")
  stem = os.path.basename(file).removesuffix(".py")
  return f"{stem}_{preset}" if preset else stem


def _carried(raw: Sequence[report.Row]) -> plans.Capacities:
  """Returns the median capacity of each component, from rows of `rig`."""

  def most(part: str) -> float:
    """Returns a component's capacity with the best number of streams."""
    rows = [row for row in raw if row["part"] == part]
    return max(
      report.median(rows, "carried_per_s", streams=streams)
      for streams in {row["streams"] for row in rows}
    )

  return plans.Capacities(*map(most, rig.PLANNED))


def _cpu_s(raw: Sequence[report.Row]) -> plans.Capacities:
  """Returns the median CPU seconds of each component, from rows of `rig`."""

  def least(part: str) -> float:
    """Returns a component's CPU seconds with the fewest streams."""
    rows = [row for row in raw if row["part"] == part]
    streams = min(row["streams"] for row in rows)
    return report.median(rows, "cpu_us", streams=streams) / 1e6

  return plans.Capacities(*map(least, rig.PLANNED))


def _demand_row(demand: plans.Demand) -> report.Row:
  """Returns what a cluster demands as a row of the page's table."""
  return {
    "workers": demand.workers,
    "machines": demand.machines,
    "environment steps/s": demand.steps_per_s,
    "replay servers": demand.shards,
    "trainers": demand.trainers,
    "samples per insert": demand.samples_per_insert,
    "proxy, cores per machine": demand.proxy_cores,
    "items, MB/s": demand.sent_mb_per_s,
    "samples, MB/s": demand.sampled_mb_per_s,
    "variables, MB/s": demand.variables_mb_per_s,
  }


def _medians(raw: Sequence[report.Row]) -> list[report.Row]:
  """Returns one row per component and number of streams."""
  cases = dict.fromkeys((row["part"], row["streams"]) for row in raw)
  return [
    {
      "part": part,
      "streams": streams,
      **{
        title: report.median(raw, column, part=part, streams=streams)
        for title, column in (
          ("per second", "per_s"),
          ("MB/s", "mb_per_s"),
          ("busy, cores", "busy_cores"),
          ("CPU us each", "cpu_us"),
          ("capacity per second", "carried_per_s"),
        )
      },
    }
    for part, streams in cases
  ]


def _plan_row(plan: plans.Plan) -> report.Row:
  """Returns a plan as a row of the page's table."""
  return {
    "shards": plan.shards,
    **{
      f"{part.name}, environment steps/s": part.steps_per_s
      for part in plan.parts
    },
    "saturates first": plan.first.name,
    "workers": plan.first.workers,
    "machines": plan.first.machines,
  }


def _describe_plan(plan: plans.Plan, cores_per_machine: int) -> str:
  """Returns a plan as a sentence of the page."""
  first = plan.first
  carries = {part.name: part.steps_per_s for part in plan.parts}
  shards = f"{plan.shards} shard{'s' if plan.shards > 1 else ''}"
  return (
    f"{shards}: {first.name} saturates first, at {first.steps_per_s:,.0f} "
    f"environment steps per second, which {first.workers:,.2f} workers make at "
    f"full speed, or {first.machines:,.2f} machines of {cores_per_machine} "
    f"cores with {plan.workers_per_machine} workers each. The capacity of "
    f"replay is {carries['replay'] / carries['trainer']:,.1f} times that of "
    "the trainer."
  )
