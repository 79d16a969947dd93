"""Tests of the memory check: presets pass, and one line rejects a config."""

import psutil
import pytest

from slipway.agents import registry
from slipway.configs import catalog
from slipway.launch.checks import memory
from tests.environments import given
from tests.launch import errors

GIB = 2**30
CONFIGS = [
  (name, preset)
  for name, module in catalog.algorithms().items()
  for preset in module.PRESETS
]


def check(config, available_bytes=24 * GIB):
  spec = given.make_spec(config.environment)
  table = registry.make_builder(config.agent).make_table(config, spec)
  memory.check(config, spec, table, available_bytes)


def make_config(name="dqn", preset="cartpole", **changes):
  config = catalog.algorithms()[name].get_config(preset)
  config.update_from_flattened_dict(
    {field.replace("__", "."): value for field, value in changes.items()}
  )
  return config


@pytest.mark.parametrize(("name", "preset"), CONFIGS)
def test_every_preset_fits(name, preset):
  config = make_config(name, preset)
  check(config, 8 * GIB)
  # This mode's table is not compressed, and repeats the frames of stacks.
  config.mode = "single"
  check(config, 24 * GIB)


def test_a_replay_that_does_not_fit():
  parts = ("has 24.0 GiB", "lower replay.capacity")
  with errors.one_line(f"config.replay.capacity={2**40}: ", *parts):
    check(make_config(replay__capacity=2**40))


def test_frames_that_items_share_count_once():
  check(make_config(preset="atari57"), 3 * GIB)  # 500,000 frames of 7 kB each
  config = make_config(preset="atari57", adder__stacked_frames=0)
  with errors.one_line("replay.capacity=500000: replay"):
    check(config, 3 * GIB)


# algorithm, frames per item of its table
STACKED = [("dqn", 5), ("rainbow", 7)]


@pytest.mark.parametrize(("name", "frames"), STACKED)
def test_frames_of_mode_single_count_once_per_item(name, frames):
  needed = 500_000 * frames * 84 * 84
  config = make_config(name, "atari57", mode="single")
  with errors.one_line("replay.capacity=500000: ", "or use another --mode"):
    check(config, needed)
  check(config, needed + GIB)
  config.replay.capacity = 250_000
  check(config, needed // 2 + GIB)
  config.adder.stacked_frames = 0  # 8 frames per item
  config.replay.capacity = 500_000
  with pytest.raises(ValueError, match=r"lower replay\.capacity$"):
    check(config, needed)


def test_a_machine_has_memory():
  assert memory.machine_bytes() > 2**28


SYSTEMD = "0::/user.slice/run-1.scope"
SLURM = "5:cpu,cpuacct:/slurm\n4:blkio,memory:/slurm/job_7/step_0"
V1 = "memory/{}memory.limit_in_bytes".format
# content of /proc/self/cgroup, files in /sys/fs/cgroup with their contents, and
# the process's memory limit in bytes (None: the machine's memory)
GROUPS = [
  (SYSTEMD, {"user.slice/run-1.scope/memory.max": "1000000"}, 1_000_000),
  (
    SYSTEMD,
    {
      "user.slice/run-1.scope/memory.max": "max",
      "user.slice/memory.max": "2000000",
      "memory.max": "3000000",
    },
    2_000_000,
  ),
  (SYSTEMD, {"other.slice/memory.max": "1000000"}, None),
  (SLURM, {V1("slurm/job_7/"): "1000000", V1(""): str(2**63)}, 1_000_000),
  (SLURM, {V1("slurm/job_8/"): "1000000"}, None),
  ("0::/", {"memory.max": "1000000"}, 1_000_000),
  # In a container, /proc/self/cgroup has the host's path.
  ("4:memory:/docker/0123", {V1(""): "1000000"}, 1_000_000),
]


@pytest.mark.parametrize(("groups", "limits", "expected"), GROUPS)
def test_the_smallest_limit_of_a_group_and_its_parents(
  groups, limits, expected, tmp_path
):
  for path, text in {
    "proc/self/cgroup": groups,
    **{f"sys/fs/cgroup/{name}": limit for name, limit in limits.items()},
  }.items():
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(f"{text}\n")
  total = psutil.virtual_memory().total
  assert memory.machine_bytes(tmp_path) == (expected or total)
