"""Tests of the memory check: presets pass, and one line rejects a config."""

import math

import psutil
import pytest

from slipway.agents import registry
from slipway.agents.networks import network
from slipway.configs import catalog
from slipway.launch import memory
from tests.environments import given

GIB = 2**30
CONFIGS = [
  (name, preset)
  for name, module in catalog.algorithms().items()
  for preset in module.PRESETS
]


def check(config, available_bytes=24 * GIB):
  spec = given.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  memory.check(config, spec, builder, available_bytes)


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


# field, a value that needs more memory than the machine has
TOO_LARGE = [
  ("replay.capacity", 2**40),
  ("network.hidden_sizes", (65_536, 65_536)),
  ("topology.environments_per_worker", 2**40),
  ("evaluation.episodes", 2**40),
]


@pytest.mark.parametrize(("field", "value"), TOO_LARGE)
def test_a_config_that_does_not_fit(field, value):
  with pytest.raises(ValueError) as caught:
    check(make_config(**{field.replace(".", "__"): value}))
  line = str(caught.value)
  assert "\n" not in line
  assert line.startswith(f"config.{field}={value}: ")
  assert "this machine has 24.0 GiB" in line
  assert line.endswith(f"lower {field}")


def test_workers_on_other_machines_do_not_count():
  config = make_config(
    topology__environments_per_worker=10_000_000, replay__capacity=50_000
  )
  spec = given.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  with pytest.raises(ValueError, match="the workers would take"):
    memory.check(config, spec, builder, GIB // 10)
  memory.check(config, spec, builder, GIB // 10, has_workers=False)


def test_frames_that_items_share_count_once():
  check(make_config(preset="atari57"), 3 * GIB)  # 500,000 frames of 7 kB each
  config = make_config(preset="atari57", adder__stacked_frames=0)
  with pytest.raises(ValueError, match=r"replay\.capacity=500000: replay"):
    check(config, 3 * GIB)


# algorithm, frames that its adder holds per environment
HELD = [
  ("dqn", (1 + 4 + 1) * 4),  # of the newest n + S + 1 steps, S of each
  ("rainbow", (3 + 4 + 1) * 4),
  ("ppo", 128 * 4),  # of the T steps of a rollout
]


@pytest.mark.parametrize(("name", "frames"), HELD)
def test_frames_that_adders_hold_count_as_the_workers(name, frames):
  config = make_config(name, "atari57")
  config.topology.update(workers=2, environments_per_worker=100)
  spec = given.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  (found,) = (
    need.size_bytes
    for need in memory.estimate(config, spec, builder)
    if need.field == "topology.environments_per_worker"
  )
  table = builder.make_table(config, spec)
  item_bytes = math.prod(table.schema.item_shape)
  observation = 4 * 84 * 84
  held = frames * 84 * 84
  assert found == 2 * 100 * (observation + held + item_bytes)


# algorithm, frames per item of its table
STACKED = [("dqn", 5), ("rainbow", 7)]


@pytest.mark.parametrize(("name", "frames"), STACKED)
def test_frames_of_mode_single_count_once_per_item(name, frames):
  needed = 500_000 * frames * 84 * 84
  config = make_config(name, "atari57", mode="single")
  with pytest.raises(ValueError) as caught:
    check(config, needed)
  line = str(caught.value)
  assert "\n" not in line
  assert "config.replay.capacity=500000: replay would take" in line
  assert line.endswith(
    "lower replay.capacity, or use another --mode, which stores each frame once"
  )
  check(config, needed + GIB)
  config.replay.capacity = 250_000
  check(config, needed // 2 + GIB)
  config.adder.stacked_frames = 0  # 8 frames per item
  config.replay.capacity = 500_000
  with pytest.raises(ValueError, match=r"lower replay\.capacity$"):
    check(config, needed)


@pytest.mark.parametrize(
  "name", ["dqn", "rainbow", "iqn", "r2d2", "ppo", "sac"]
)
def test_variables_are_counted_as_the_learner_makes_them(name):
  config = catalog.algorithms()[name].get_config()
  spec = given.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  made = builder.make_learner(config, spec).get_variables()
  shapes = network.variable_shapes(builder.make_network(config, spec))
  assert sorted(shapes.values()) == sorted(x.shape for x in made.values())


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
