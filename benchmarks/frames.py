"""Benchmark `frames`: saving and cost of storing each frame once."""

import functools

import ml_collections
import portpicker
import psutil

from benchmarks import filling, goal, processes, report
from slipway.configs import apex_dqn
from slipway.replay.tables import table_spec

GOAL_BYTES = 1 / 6  # ratio of bytes per transition, frames to stacks
GOAL_SPEED = 1.0  # ratio of samples per second, frames to stacks

_CONTENTS = ("noise", "play")
_STORED = ("stacks", "frames")
_BATCHES = 40  # sampled in one call of the graph
_CALLS = 15
_WARM_UP_ITEMS = 500

_METHOD = """\
{items:,} transitions (3 steps, 4 frames of 84x84 stacked) in a prioritized
table in one process. `stacks`: a transition is a row with both stacks
(`adder.stacked_frames=0`); `frames`: each frame is stored once (4). `noise`:
frames of random bytes, which can't be compressed; `play`: Pong by random
actions, which Reverb compresses well. Bytes are the growth of the process's
resident memory after the first {warm_up} transitions; raw bytes are those
before compression. The trainer's dataset samples from the process's own table,
in batches of 32, and unpacks both stacks in one graph. CPU time is that of all
threads of the process. Each side runs in fresh processes, one right after the
other; medians of {runs} repetitions, ratios within a repetition."""


def _config(stored: str) -> ml_collections.ConfigDict:
  """Returns the config for 'stacks' or 'frames' as the form of storage."""
  config = apex_dqn.get_config("pong")
  config.adder.stacked_frames = 4 if stored == "frames" else 0
  config.replay.update({"min_size": 1, "samples_per_insert": 0.0})
  config.topology.environments_per_worker = 8
  return config


def measure_process(content: str, stored: str, items: int) -> dict[str, float]:
  """Measures one form of storage, in this process.

  Args:
    content: frames of random bytes ('noise') or of Pong ('play').
    stored: 'stacks', each stack stored whole, or 'frames', each frame once.
    items: least number of transitions.

  Returns:
    Values by column of the CSV file.
  """
  from slipway.environments import factory
  from slipway.replay.tables import tables, trajectory_manager

  config = _config(stored)
  spec = factory.make_spec(config.environment)
  table = filling.make_table_spec(config)
  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(table)],
    portpicker.pick_unused_port(),
  )

  def fill(items: int) -> None:
    steps = filling.noise if content == "noise" else filling.play
    filling.fill(manager.address, config, spec, items, steps(config, spec))

  fill(_WARM_UP_ITEMS)
  before = manager.status(tables.TRANSITIONS).size
  memory = psutil.Process().memory_info().rss
  fill(items)
  made = manager.status(tables.TRANSITIONS).size - before
  memory = psutil.Process().memory_info().rss - memory
  cell = table.schema.item_shape[-1]
  return {
    "items": made,
    "bytes_a_transition": memory / made,
    "raw_bytes_a_transition": cell,
    **_draw(manager.address, table),
  }


def _draw(address: str, table: table_spec.TableSpec) -> dict[str, float]:
  """Measures the trainer's dataset: samples per second, CPU time per sample."""
  import tensorflow as tf

  from slipway.replay.tables import dataset

  batches = iter(dataset.make_dataset(address, table))

  @functools.partial(tf.function, autograph=False)
  def draw(batches):
    def add(i, total):
      batch = dataset.unpack(table.schema, next(batches))
      # So that neither stack is left out as unused.
      for stack in (batch.data.o_tm1, batch.data.o_t):
        total += tf.cast(stack[0, 0, 0, 0], tf.int32)
      return i + 1, total

    return tf.while_loop(lambda i, _: i < _BATCHES, add, (0, 0))

  draw(batches)
  start = processes.cpu()
  for _ in range(_CALLS):
    draw(batches)
  passed = processes.since(start)
  samples = _CALLS * _BATCHES * table.batch_size
  return {
    "samples_per_s": samples / passed.wall_s,
    "cpu_us_a_sample": 1e6 * passed.cpu_s / samples,
  }


def measure(runs: int, items: int = 10_000) -> report.Report:
  """Measures storage as stacks and as frames.

  Args:
    runs: number of repetitions.
    items: transitions per repetition.
  """
  raw = []
  for repetition in range(runs):
    for content in _CONTENTS:
      for stored in _STORED:
        row = processes.call(
          measure_process,
          *(content, stored, items),
          environment=processes.ONE_THREAD,
        )
        case = {"content": content, "stored": stored, "repetition": repetition}
        raw.append({**case, **row})
  goals = []
  for content in _CONTENTS:
    size = _ratio(raw, content, "bytes_a_transition")
    speed = _ratio(raw, content, "samples_per_s")
    goals += [
      goal.at_most(
        f"{content}: 1/{1 / size:.1f} of the bytes of both stacks, goal at "
        f"most 1/{1 / GOAL_BYTES:.0f}",
        size,
        GOAL_BYTES,
      ),
      goal.at_least(
        f"{content}: {speed:.2f} times their samples per second, goal at least "
        f"{GOAL_SPEED:g}",
        speed,
        GOAL_SPEED,
      ),
    ]
  return report.Report(
    name="frames",
    title="Frames stored once",
    method=_METHOD.format(items=items, warm_up=_WARM_UP_ITEMS, runs=runs),
    raw=raw,
    medians=[
      {
        "content": content,
        "stored": stored,
        **{
          title: report.median(raw, column, content=content, stored=stored)
          for title, column in (
            ("bytes a transition", "bytes_a_transition"),
            ("raw", "raw_bytes_a_transition"),
            ("samples/s", "samples_per_s"),
            ("CPU us a sample", "cpu_us_a_sample"),
          )
        },
      }
      for content in _CONTENTS
      for stored in _STORED
    ],
    goals=goals,
  )


def _ratio(raw: list[report.Row], content: str, column: str) -> float:
  """Returns the ratio of a column's values, of 'frames' to 'stacks'."""
  rows = [row for row in raw if row["content"] == content]
  return report.ratio(
    rows, column, of={"stored": "frames"}, to={"stored": "stacks"}
  )
