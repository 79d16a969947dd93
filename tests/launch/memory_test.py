"""Memory: every preset fits a machine, and one line says what does not."""

import pytest

from agents import registry
from agents.networks import network
from configs import catalog
from environments import factory
from launch import memory

GIB = 2**30
CONFIGS = [
  (name, preset)
  for name, module in catalog.algorithms().items()
  for preset in module.PRESETS
]


def check(config, available_bytes=24 * GIB):
  spec = factory.make_spec(config.environment)
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
  config.mode = "single"  # whose table does not compress
  check(config, 24 * GIB)


# Field, a value that only a larger machine can serve.
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


def test_frames_that_items_share_count_once():
  check(make_config(preset="atari57"), 3 * GIB)  # 500,000 frames of 7 kB
  config = make_config(preset="atari57", adder__stacked_frames=0)
  with pytest.raises(ValueError, match=r"replay\.capacity=500000: replay"):
    check(config, 3 * GIB)


@pytest.mark.parametrize(
  "name", ["dqn", "rainbow", "iqn", "r2d2", "ppo", "sac"]
)
def test_variables_are_counted_as_the_learner_makes_them(name):
  config = catalog.algorithms()[name].get_config()
  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  made = builder.make_learner(config, spec).get_variables()
  shapes = network.variable_shapes(builder.make_network(config, spec))
  assert sorted(shapes.values()) == sorted(x.shape for x in made.values())


def test_a_machine_has_memory():
  assert memory.machine_bytes() > 2**28
