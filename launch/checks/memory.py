"""Memory: checks that a machine has the memory for a run's replay."""

import contextlib
import math
import pathlib
from collections.abc import Iterator

import ml_collections
import numpy as np
import psutil
from acme import specs

from slipway.configs import fields
from slipway.replay.tables import table_spec

# Bytes that Reverb adds to each item, measured with items of 60 to 8,000 bytes.
_ITEM_OVERHEAD_BYTES = 1_000
# Compressed size of a frame in Reverb, divided by its uncompressed size. Frames
# of Atari have ratios of 0.3 to 0.6.
_FRAME_COMPRESSION_RATIO = 0.5
# Mount point of the control groups with a memory limit, and name of the file
# with the limit. The key is the controller in a line of /proc/self/cgroup: ''
# for version 2 of control groups, and 'memory' for version 1.
_CGROUP_LIMITS = {
  "": ("sys/fs/cgroup", "memory.max"),
  "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}


def check(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  table: table_spec.TableSpec | None,
  available_bytes: int,
) -> None:
  """Checks that a full replay fits into the memory of the trainer's machine.

  Raises:
    ValueError: the replay does not fit.
  """
  if table is None:
    return
  observation = spec.observations
  has_frames = observation.dtype == np.uint8 and len(observation.shape) == 3
  needed = replay_bytes(table, config.mode)
  if has_frames and config.mode != "single":
    needed *= _FRAME_COMPRESSION_RATIO
  if needed <= available_bytes:
    return
  name = "variables.max_age" if table.is_queue else "replay.capacity"
  remedy = ""
  if config.mode == "single" and _shares_frames(table):
    remedy = ", or use another --mode, which stores each frame once"
  raise ValueError(
    f"config.{name}={fields.get(config, name)}: replay would take about "
    f"{format_bytes(needed)} of memory, and this machine has "
    f"{format_bytes(available_bytes)}, so the run would be killed; lower "
    f"{name}{remedy}"
  )


def replay_bytes(table: table_spec.TableSpec, mode: str) -> int:
  """Returns the uncompressed bytes of a full table, with all its shards."""
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
  """Yields limit files of this process's control group and its parents."""
  # In a container, the group's path may be that of the host, which does not
  # exist here. The mount point, the last parent, then has the limit.
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


def format_bytes(size_bytes: float) -> str:
  """Formats a number of bytes in GiB or TiB, such as '1.5 GiB'."""
  if size_bytes < 2**40:
    return f"{size_bytes / 2**30:,.1f} GiB"
  return f"{size_bytes / 2**40:,.1f} TiB"
