"""Memory: estimates the memory of a run, and checks that a machine has it."""

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
from slipway.replay.items import packing
from slipway.replay.tables import table_spec

# Bytes that Reverb adds to each item, measured with items of 60 to 8,000 bytes.
_ITEM_OVERHEAD_BYTES = 1_000
# Compressed size of a frame in Reverb, divided by its uncompressed size. Frames
# of Atari have ratios of 0.3 to 0.6.
_FRAME_COMPRESSION_RATIO = 0.5
# Copies of a variable: value, target, gradient and Adam's two moments.
_VARIABLE_COPIES = 5
_WORKERS_COMPONENT = "the workers"  # `Need.component` of all workers together
# Number of batches in memory at a time: sampled, prefetched and in the update.
_BATCHES_IN_MEMORY = 4
# Mount point of the control groups with a memory limit, and name of the file
# with the limit. The key is the controller in a line of /proc/self/cgroup: ''
# for version 2 of control groups, and 'memory' for version 1.
_CGROUP_LIMITS = {
  "": ("sys/fs/cgroup", "memory.max"),
  "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}


class Need(typing.NamedTuple):
  """The estimated memory that one component of a run needs.

  Attributes:
    component: the component as a noun with its article, such as 'the workers'.
    size_bytes: estimated memory in bytes.
    field: name of the config field on which the memory depends most.
    alternative: remedy other than a lower value of the field, as an imperative;
      '' if there is none.
  """

  component: str
  size_bytes: int
  field: str
  alternative: str = ""


def check(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  available_bytes: int,
  has_workers: bool = True,
) -> None:
  """Checks that a run fits into the memory of the trainer's machine.

  Args:
    config: the whole config, checked by its builder.
    spec: specification of one environment.
    builder: builder of the config's algorithm.
    available_bytes: memory of that machine.
    has_workers: whether all workers run on that machine, too.

  Raises:
    ValueError: the run does not fit; the message names the component that needs
      the most memory.
  """
  needs = estimate(config, spec, builder)
  if not has_workers:
    needs = [need for need in needs if need.component != _WORKERS_COMPONENT]
  total = sum(need.size_bytes for need in needs)
  if total <= available_bytes:
    return
  most = max(needs, key=lambda need: need.size_bytes)
  alternative = f", or {most.alternative}" if most.alternative else ""
  raise ValueError(
    f"config.{most.field}="
    f"{fields.format_value(fields.get(config, most.field))}: "
    f"{most.component} would take about {_format_bytes(most.size_bytes)} of "
    f"memory, all nodes {_format_bytes(total)}, and this machine has "
    f"{_format_bytes(available_bytes)}, so the run would be killed; "
    f"lower {most.field}{alternative}"
  )


def estimate(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
) -> list[Need]:
  """Returns the estimated memory of each component of a run.

  The estimates are lower bounds: they leave out the memory of the processes'
  code and libraries.

  Args:
    config: the whole config, checked by its builder.
    spec: specification of one environment.
    builder: builder of the config's algorithm.
  """
  shapes = network.variable_shapes(builder.make_network(config, spec))
  parameters = sum(math.prod(shape) for shape in shapes.values())
  observation = spec.observations
  needs = [
    Need(
      "the networks", 4 * _VARIABLE_COPIES * parameters, "network.hidden_sizes"
    ),
    Need(
      "the evaluator",
      config.evaluation.episodes * packing.size_bytes(observation),
      "evaluation.episodes",
    ),
  ]
  table = builder.make_table(config, spec)
  if table is None:
    return needs
  item_bytes = math.prod(table.schema.item_shape)
  has_frames = observation.dtype == np.uint8 and len(observation.shape) == 3
  compression = (
    _FRAME_COMPRESSION_RATIO if has_frames and config.mode != "single" else 1.0
  )
  topology = config.topology
  capacity = "variables.max_age" if table.is_queue else "replay.capacity"
  repeats_frames = config.mode == "single" and _shares_frames(table)
  return [
    *needs,
    Need(
      "replay",
      int(compression * replay_bytes(table, config.mode)),
      capacity,
      "use another --mode, which stores each frame once"
      if repeats_frames
      else "",
    ),
    Need(
      "the trainer's batches",
      _BATCHES_IN_MEMORY * table.batch_size * item_bytes,
      "learner.batch_size",
    ),
    Need(
      _WORKERS_COMPONENT,
      topology.workers
      * topology.environments_per_worker
      * (
        packing.size_bytes(observation) + table.schema.held_bytes + item_bytes
      ),
      "topology.environments_per_worker",
    ),
  ]


def replay_bytes(table: table_spec.TableSpec, mode: str) -> int:
  """Returns the uncompressed bytes of a full table.

  Args:
    table: specification of the run's table; all of its shards are counted.
    mode: the run's mode, which determines whether items share their frames.
  """
  shape = table.schema.item_shape
  if mode == "single":
    # The in-process table stores all frames of each item, without overhead.
    return table.capacity * math.prod(shape)
  # If items share frames, each item adds only one frame record to the table.
  item_bytes = shape[-1] if _shares_frames(table) else math.prod(shape)
  return table.shards * table.capacity * (item_bytes + _ITEM_OVERHEAD_BYTES)


def _shares_frames(table: table_spec.TableSpec) -> bool:
  """Returns whether items of a Reverb table share their frame records."""
  return table.schema.kept_frame_records(1) > 0


def machine_bytes(root: pathlib.Path = pathlib.Path("/")) -> int:
  """Returns the bytes of memory that processes of this machine may use.

  A control group, such as that of a container, may limit them to less than the
  machine's memory.

  Args:
    root: folder in which the file systems `proc` and `sys` are mounted.
  """
  limits = [psutil.virtual_memory().total]
  for path in _find_limit_files(root):
    with contextlib.suppress(OSError, ValueError):  # missing, or "max"
      limits.append(int(path.read_text()))
  return min(limits)


def _find_limit_files(root: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yields the paths of the files that may limit this process's memory.

  These are the limit files of its control group and of the group's parents. In
  a container, the group's path may be that of the host, which does not exist
  here. The mount point, which is the last parent, then has the limit of the
  container.

  Args:
    root: folder in which the file systems `proc` and `sys` are mounted.
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


def _format_bytes(size_bytes: int) -> str:
  """Formats a number of bytes in GiB or TiB, such as '1.5 GiB'."""
  if size_bytes < 2**40:
    return f"{size_bytes / 2**30:,.1f} GiB"
  return f"{size_bytes / 2**40:,.1f} TiB"
