"""Memory: an estimate of what a config needs, against what this machine has."""

import contextlib
import math
import pathlib
import typing
from collections.abc import Iterator

import ml_collections
import numpy as np
import psutil
from acme import specs

from slipway.agents import core
from slipway.agents.networks import network
from slipway.configs import fields
from slipway.replay.tables import table_spec

# Of Reverb per item, besides its bytes: measured with items of 60 to 8,000
# bytes.
_ITEM_BYTES = 1_000
# Of the bytes of frames, as Reverb compresses them: 0.3 to 0.6 of Atari's.
_FRAMES = 0.5
# Copies of a variable: it, its target, its gradient and Adam's two moments.
_COPIES = 5
_WORKERS = "the workers"
# Batches that are sampled, read ahead and learned from at a time.
_BATCHES = 4
# Of control groups, by the controllers of a line of /proc/self/cgroup: where
# the groups with a memory limit are mounted, and the file that has the limit.
# Version 2 has no controllers in its line.
_CGROUP_LIMITS = {
  "": ("sys/fs/cgroup", "memory.max"),
  "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}


class Need(typing.NamedTuple):
  """What one part of a run holds in memory.

  Attributes:
    part: a noun.
    size_bytes: estimate.
    field: the config's field that most determines it.
  """

  part: str
  size_bytes: int
  field: str


def check(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  available_bytes: int,
  has_workers: bool = True,
) -> None:
  """Checks that a run fits into the memory of the machine that learns.

  Args:
    config: the whole config, checked by its builder.
    spec: of one environment.
    builder: of the config's algorithm.
    available_bytes: of the machine.
    has_workers: whether all workers are on that machine, too.

  Raises:
    ValueError: one line: it does not, which part is the largest, and its field.
  """
  needs = estimate(config, spec, builder)
  if not has_workers:
    needs = [need for need in needs if need.part != _WORKERS]
  total = sum(need.size_bytes for need in needs)
  if total <= available_bytes:
    return
  most = max(needs, key=lambda need: need.size_bytes)
  raise ValueError(
    f"config.{most.field}={fields.show(fields.get(config, most.field))}: "
    f"{most.part} would take about {_gib(most.size_bytes)} of memory, all "
    f"nodes {_gib(total)}, and this machine has {_gib(available_bytes)}, "
    f"so the run would be killed; lower {most.field}"
  )


def estimate(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> list[Need]:
  """Returns a lower bound of what the nodes hold besides their programs.

  Args:
    config: the whole config, checked by its builder.
    spec: of one environment.
    builder: of the config's algorithm.
  """
  shapes = network.variable_shapes(builder.make_network(config, spec))
  parameters = sum(math.prod(shape) for shape in shapes.values())
  observation = spec.observations
  needs = [
    Need("the networks", 4 * _COPIES * parameters, "network.hidden_sizes"),
    Need(
      "the evaluator",
      config.evaluation.episodes * _size(observation),
      "evaluation.episodes",
    ),
  ]
  table = builder.make_table(config, spec)
  if table is None:
    return needs
  item_bytes = math.prod(table.schema.item_shape)
  frames = observation.dtype == np.uint8 and len(observation.shape) == 3
  compressed = _FRAMES if frames and config.mode != "single" else 1.0
  topology = config.topology
  return [
    *needs,
    Need("replay", int(compressed * replay_bytes(table)), "replay.capacity"),
    Need(
      "the trainer's batches",
      _BATCHES * table.batch_size * item_bytes,
      "learner.batch_size",
    ),
    Need(
      _WORKERS,
      topology.workers
      * topology.environments_per_worker
      * (_size(observation) + item_bytes),
      "topology.environments_per_worker",
    ),
  ]


def replay_bytes(table: table_spec.TableSpec) -> int:
  """Returns what the items of all servers take, not compressed.

  Args:
    table: of the run.
  """
  shape = table.schema.item_shape
  # Where items share their frames, each brings one.
  shared = table.schema.kept_frame_records(1) > 0
  each = shape[-1] if shared else math.prod(shape)
  return table.shards * table.capacity * (each + _ITEM_BYTES)


def machine_bytes(root: pathlib.Path = pathlib.Path("/")) -> int:
  """Returns the memory that this machine, or its control group, has.

  Args:
    root: folder that has the proc and sys file systems.
  """
  limits = [psutil.virtual_memory().total]
  for path in _limit_files(root):
    with contextlib.suppress(OSError, ValueError):  # none, or "max"
      limits.append(int(path.read_text()))
  return min(limits)


def _limit_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields where limits of this process's group and its parents may be.

  In a container the group's path may be the host's, and not exist here; the
  mount itself, the last of the parents, is the container's group then.
  """
  try:
    lines = (root / "proc/self/cgroup").read_text().splitlines()
  except OSError:  # a kernel without control groups
    return
  for line in lines:
    _, controllers, group = line.split(":", 2)
    for controller in controllers.split(","):
      if controller in _CGROUP_LIMITS:
        mount, file = _CGROUP_LIMITS[controller]
        path = pathlib.PurePath(group.lstrip("/"))
        for folder in (path, *path.parents):
          yield root / mount / folder / file


def _size(array: specs.Array) -> int:
  return math.prod(array.shape) * array.dtype.itemsize


def _gib(size_bytes: int) -> str:
  if size_bytes < 2**40:
    return f"{size_bytes / 2**30:,.1f} GiB"
  return f"{size_bytes / 2**40:,.1f} TiB"
