"""Benchmark `trainer`: the learner's speed on replay and on a fixed batch."""

import dataclasses
import time
import typing

import ml_collections
import portpicker

from benchmarks import filling, goal, processes, report
from slipway.agents import core
from slipway.configs import catalog
from slipway.launch.processes import processors
from slipway.replay.tables import table_spec

if typing.TYPE_CHECKING:
  from slipway.agents.updates import core as updates_core
  from slipway.replay.tables import dataset as dataset_lib

_ROWS_A_WRITE = 20
_SETTLE_S = 0.1  # in which the last priorities arrive, before the next side

_METHOD = """\
One process trains: `slipway.agents.updates.graph_loop.GraphLoop` in calls of as
many updates as its config says. `replay`: through `ReplayUpdates`, batches
sampled from a table whose server is in the same process, as in a run, and new
priorities, if the table has any, pushed back. `fixed`: the same learner and
loop on one unpacked batch again and again, and nothing pushed. The two
alternate in that process; medians of {runs} repetitions, ratios within a
repetition, after a first one that is not counted. CPU time is that of all
threads of the process. The table is full, and no process writes to it. An item
holds four transitions, as in the presets for MLPs, unless the case's name has
another number. Cases without an algorithm's name are Ape-X DQN, with
priorities."""


@dataclasses.dataclass(frozen=True)
class Case:
  """One learner whose updates are measured.

  Attributes:
    name: name of the case.
    algorithm: name of the algorithm, a file of configs/.
    preset: preset of the algorithm.
    overrides: values that replace the preset's, by field name.
    items: transitions in the table.
    updates: updates per repetition.
    goal: least ratio of the updates per second on replay to those on a fixed
      batch, or None.
  """

  name: str
  algorithm: str
  preset: str
  overrides: dict[str, object]
  items: int
  updates: int
  goal: float | None = None

  def config(self) -> ml_collections.ConfigDict:
    """Returns the whole config of the case."""
    config = catalog.algorithms()[self.algorithm].get_config(self.preset)
    config.update_from_flattened_dict(self.overrides)
    config.replay.capacity = self.items
    config.replay.min_size = min(config.replay.min_size, self.items)
    config.replay.samples_per_insert = 0.0  # nothing inserts: must not block
    return config


_ALONE = {"replay.transitions_per_item": 1}  # the preset has several


def _mlp(
  name: str,
  size: int,
  batch_size: int,
  dueling: bool,
  double: bool,
  n: int,
  goal: float | None = None,
  **more: object,
) -> Case:
  """Makes a case on CartPole with an MLP of two layers of `size` units."""
  overrides = {
    "network.hidden_sizes": (size, size),
    "network.dueling": dueling,
    "learner.batch_size": batch_size,
    "learner.double": double,
    **more,
  }
  return Case(name, "apex_dqn", "cartpole", overrides, 20_000, n, goal)


def _halfcheetah(name: str, algorithm: str) -> Case:
  """Makes the case of an actor-critic algorithm on HalfCheetah."""
  return Case(name, algorithm, "halfcheetah", {}, 20_000, 500, goal=0.9)


CASES = (
  _mlp("MLP 256-256, batch 256", 256, 256, False, False, 1_000, 0.8),
  _mlp("MLP 256-256, batch 256, double", 256, 256, False, True, 1_000, 0.8),
  _mlp("MLP 256-256, batch 256, double, dueling", 256, 256, True, True, 1_000),
  _mlp("MLP 64-64, batch 64", 64, 64, False, False, 4_000),
  _mlp("MLP 64-64, batch 64, double, dueling", 64, 64, True, True, 4_000),
  _mlp(
    "MLP 256-256, batch 256, 1 an item", 256, 256, False, False, 1_000, **_ALONE
  ),
  _mlp("MLP 64-64, batch 64, 1 an item", 64, 64, False, False, 4_000, **_ALONE),
  Case(
    "Nature CNN, batch 32, double, dueling",
    "apex_dqn",
    "pong",
    {"learner.batch_size": 32},
    items=2_000,
    updates=160,
    goal=0.95,
  ),
  _halfcheetah("SAC, MLP 256-256, batch 256", "sac"),
  _halfcheetah("TD3, MLP 256-256, batch 256", "td3"),
)


def measure_case(case: Case, runs: int) -> list[report.Row]:
  """Measures one case in this process.

  Args:
    case: the learner.
    runs: repetitions on replay and on a fixed batch; one more is discarded.

  Returns:
    One row per repetition and kind of batch.
  """
  from slipway.agents import registry
  from slipway.agents.updates import replay_updates
  from slipway.environments import factory
  from slipway.replay.tables import (
    dataset,
    tables,
    trajectory_manager,
  )

  config = case.config()
  spec = factory.make_spec(config.environment)
  table = filling.make_table_spec(config)
  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(table)],
    portpicker.pick_unused_port(),
  )
  fill(manager.address, config, spec, case.items)
  learner = registry.make_builder(config.agent).make_learner(config, spec)
  samples = next(iter(dataset.make_dataset(manager.address, table)))
  loops = {
    "fixed": _FixedUpdates(learner, table, samples),
    "replay": replay_updates.ReplayUpdates(
      learner, table, table.limiter, [manager.address]
    ),
  }
  rows = []
  for repetition in range(-1, runs):
    for kind, loop in loops.items():
      updates, passed = _run(loop, config.learner.steps_per_call, case.updates)
      time.sleep(_SETTLE_S)
      if repetition >= 0:
        rows.append(
          {
            "case": case.name,
            "repetition": repetition,
            "kind": kind,
            "updates": updates,
            **passed._asdict(),
            "updates_per_s": updates / passed.wall_s,
            "cpu_us_per_update": 1e6 * passed.cpu_s / updates,
          }
        )
  return rows


def measure(runs: int, cases: tuple[Case, ...] = CASES) -> report.Report:
  """Measures all cases, each in its own process.

  Args:
    runs: repetitions on replay and on a fixed batch.
    cases: the learners.
  """
  raw = []
  for case in cases:
    raw += processes.call(
      measure_case,
      case,
      runs,
      environment=processors.make_role_variables("trainer", case.config()),
    )
  medians = [_medians(raw, case.name) for case in cases]
  goals = [
    goal.at_least(
      f"{row['case']}: {row['ratio']:.2f} of the fixed batch's updates per "
      f"second, goal at least {case.goal}",
      row["ratio"],
      case.goal,
    )
    for case, row in zip(cases, medians, strict=True)
    if case.goal is not None
  ]
  return report.Report(
    name="trainer",
    title="The trainer: updates per second on replay and on a fixed batch",
    method=_METHOD.format(runs=runs),
    raw=raw,
    medians=medians,
    goals=goals,
  )


def _medians(raw: list[report.Row], case: str) -> dict:
  """Returns the row of medians of a case."""
  rows = [row for row in raw if row["case"] == case]
  columns = {
    f"{title}, {kind}": report.median(rows, column, kind=kind)
    for title, column in (
      ("updates/s", "updates_per_s"),
      ("CPU us an update", "cpu_us_per_update"),
    )
    for kind in ("fixed", "replay")
  }
  ratio = report.ratio(
    rows, "updates_per_s", of={"kind": "replay"}, to={"kind": "fixed"}
  )
  return {"case": case, **columns, "ratio": ratio}


class _FixedBatch:
  """A learner that ignores its batches and always learns from the same one."""

  def __init__(self, learner: core.Learner, batch: "dataset_lib.Batch"):
    self._learner, self._batch = learner, batch

  def update(self, batch: "dataset_lib.Batch") -> core.Update:
    # The graph leaves out the unpacking, whose result is not used.
    del batch
    return self._learner.update(self._batch)


class _FixedUpdates:
  """Runs updates on one fixed batch, without pushing priorities."""

  def __init__(
    self,
    learner: core.Learner,
    spec: table_spec.TableSpec,
    samples: typing.Any,
  ):
    import tensorflow as tf

    from slipway.agents.updates import graph_loop
    from slipway.replay.tables import dataset

    batch = dataset.unpack(spec.schema, samples)
    weight = tf.constant(1.0)
    fixed: typing.Any = _FixedBatch(
      learner, batch._replace(shard_weight=weight)
    )
    self._loop = graph_loop.GraphLoop(fixed, spec)
    self._iterator = iter(tf.data.Dataset.from_tensors(samples).repeat())
    self._function: typing.Any = tf.function(
      lambda iterator, updates: self._loop(iterator, updates, weight),
      autograph=False,
    )

  def run(self, updates: int) -> "updates_core.LastUpdate":
    """Makes updates in one call of the graph; returns the last one."""
    import tensorflow as tf

    from slipway.agents.updates import graph_loop

    done = self._function(self._iterator, tf.constant(updates))
    return graph_loop.make_last_update(
      self._loop.names, done.metrics, done.versions
    )


def _run(loop, steps_per_call: int, updates: int):
  """Makes updates by calls of a loop; returns their number and times."""
  start, done = processes.cpu(), 0
  while done < updates:
    assert loop.run(steps_per_call) is not None, "starved on a full table"
    done += steps_per_call
  return done, processes.since(start)


def fill(
  address: str, config: ml_collections.ConfigDict, spec, items: int
) -> None:
  """Writes random transitions of many environments at once.

  Args:
    address: address of the server.
    config: the whole config.
    spec: spec of the environment.
    items: least number of transitions to write.
  """
  config = config.copy_and_resolve_references()
  config.topology.environments_per_worker = _ROWS_A_WRITE
  filling.fill(address, config, spec, items, filling.noise(config, spec))
