"""Validation: presets are valid; each bad value is named with its field."""

import importlib
import math

import pytest

from configs import dqn, sizes, validation

FILES = ("dqn", "prioritized_dqn", "apex_dqn")


def get_config(name, preset):
  return importlib.import_module(f"configs.{name}").get_config(preset)


def flatten(config, prefix=""):
  flat = {}
  for key, value in config.items():
    if hasattr(value, "items"):
      flat |= flatten(value, f"{prefix}{key}.")
    else:
      flat[prefix + key] = value
  return flat


def with_value(field, value):
  config = dqn.get_config()
  *path, name = field.split(".")
  part = config
  for step in path:
    part = part[step]
  with part.ignore_type():
    part[name] = value
  return config


def message_of(config):
  with pytest.raises(ValueError) as error:
    validation.validate(config)
  message = str(error.value)
  assert "\n" not in message
  return message


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("preset", dqn.PRESETS)
def test_each_preset_is_valid(name, preset):
  validation.validate(get_config(name, preset))


@pytest.mark.parametrize("name", FILES)
def test_unknown_preset_names_the_known_ones(name):
  with pytest.raises(ValueError) as error:
    get_config(name, "cartpol")
  assert str(error.value) == (
    "config preset 'cartpol' is unknown, so there are no numbers to run "
    "with: choose one of cartpole, lunarlander, pong"
  )


# What Ape-X changes where batches are small work, and not with frames.
_OF_SMALL_WORK = {
  "replay.transitions_per_item",
  "topology.environments_per_worker",
  "variables.publish_period",
}


@pytest.mark.parametrize("preset", dqn.PRESETS)
@pytest.mark.parametrize(
  ("base", "name", "fields"),
  [
    (
      "dqn",
      "prioritized_dqn",
      {"learner.double", "replay.sampler"},
    ),
    (
      "prioritized_dqn",
      "apex_dqn",
      {
        "network.dueling",
        "adder.n_step",
        "exploration.schedule",
        "topology.workers",
        *_OF_SMALL_WORK,
      },
    ),
  ],
)
def test_variant_touches_only_what_its_paper_changes(
  base, name, fields, preset
):
  before = flatten(get_config(base, preset))
  after = flatten(get_config(name, preset))
  assert before.keys() == after.keys()
  if before["adder.stacked_frames"]:
    fields = fields - _OF_SMALL_WORK
  assert {f for f in before if before[f] != after[f]} == fields


BAD = [
  ("seed", -1),
  ("adder.n_step", 0),
  ("adder.stacked_frames", -1),
  ("adder.discount", 1.01),
  ("adder.discount", -0.1),
  ("exploration.schedule", "constant"),
  ("exploration.epsilon_start", 1.5),
  ("exploration.epsilon_end", -0.1),
  ("exploration.ladder_base", 0.0),
  ("exploration.ladder_base", 1.0),
  ("exploration.ladder_exponent", -1.0),
  ("exploration.decay_steps", 0),
  ("network.torso", "resnet"),
  ("network.hidden_sizes", ()),
  ("network.hidden_sizes", (64, 0)),
  ("replay.sampler", "fifo"),
  ("replay.min_size", 0),
  ("replay.samples_per_insert", -1.0),
  ("replay.samples_per_insert", math.inf),
  ("replay.transitions_per_item", 0),
  ("replay.tolerance", 0.0),
  ("replay.priority_exponent", -0.6),
  ("replay.importance_exponent_start", 1.1),
  ("replay.importance_exponent_end", -0.1),
  ("replay.importance_steps", 0),
  ("learner.batch_size", 0),
  ("learner.threads", -1),
  ("learner.learning_rate", 0.0),
  ("learner.learning_rate", math.nan),
  ("learner.learning_rate", math.inf),
  ("learner.adam_epsilon", 0.0),
  ("learner.huber_delta", 0.0),
  ("learner.huber_delta", math.inf),
  ("learner.max_gradient_norm", 0.0),
  ("learner.max_gradient_norm", math.inf),
  ("learner.target_update_period", 0),
  ("learner.steps_per_call", 0),
  ("variables.publish_period", 0),
  ("topology.workers", 0),
  ("topology.workers", 257),
  ("topology.environments_per_worker", 0),
  ("topology.replay", "elsewhere"),
  ("evaluation.episodes", 0),
  ("evaluation.period_s", -1.0),
  ("evaluation.period_steps", 0),
  ("snapshot.period_s", 0.0),
  ("snapshot.keep", 0),
  ("mode", "asynchronous"),
  ("sync.environment_steps", 0),
  ("restarts.budget", -1),
  ("restarts.period_s", 0.0),
  ("watchdog.period_s", 0.0),
  ("watchdog.period_s", math.inf),
  ("rates.environment_steps_per_s", -1.0),
  ("rates.environment_steps_per_s", math.nan),
  ("rates.environment_steps_per_s", math.inf),
  ("limits.environment_steps", -1),
  ("limits.trainer_steps", -1),
  ("limits.wall_clock_s", -1.0),
  ("limits.target_return", math.nan),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_bad_value_is_named_with_its_field(field, value):
  message = message_of(with_value(field, value))
  assert message.startswith(f"config.{field}={value!r} ")
  assert ": " in message  # the consequence


def test_each_range_has_a_bad_value_above():
  assert {field for field, *_ in validation._RANGES} <= {f for f, _ in BAD}


def test_capacity_below_batch_size():
  message = message_of(with_value("replay.capacity", 63))
  assert message.startswith(
    "config.replay.capacity=63 is below config.learner.batch_size=64: "
  )
  config = with_value("replay.capacity", 64)
  config.replay.min_size = 64
  validation.validate(config)


def test_min_size_above_capacity():
  message = message_of(with_value("replay.min_size", 50_001))
  assert message.startswith(
    "config.replay.min_size=50001 is above config.replay.capacity=50000: "
  )
  validation.validate(with_value("replay.min_size", 50_000))


# min_size, samples_per_insert, tolerance: bounds that the limiter, which counts
# in doubles, would never reach or leave.
BLOCKED = [
  (1_000, 1e300, 0.5),
  (1_000, 1e307, 0.5),  # beyond the largest double
  (1_000, 8.0, 1e200),
  (1_000, 2.0**50, 0.5),
]


@pytest.mark.parametrize(("min_size", "ratio", "tolerance"), BLOCKED)
def test_a_limiter_that_blocks_for_ever(min_size, ratio, tolerance):
  config = dqn.get_config()
  config.replay.update(
    min_size=min_size, samples_per_insert=ratio, tolerance=tolerance
  )
  message = message_of(config)
  assert message.startswith(f"config.replay.samples_per_insert={ratio!r} ")
  assert "it would block for ever" in message


def test_rounds_need_a_ratio():
  config = with_value("replay.samples_per_insert", 0.0)
  validation.validate(config)
  config.mode = "sync"
  assert message_of(config).startswith(
    "config.replay.samples_per_insert=0.0 is no ratio"
  )


def test_one_field_alone():
  validation.check("limits.trainer_steps", 7)
  validation.check("limits.target_return", -math.inf)
  validation.check("environment.name", "any")
  for field, value in BAD:
    with pytest.raises(ValueError) as error:
      validation.check(field, value)
    assert str(error.value) == message_of(with_value(field, value))


@pytest.mark.parametrize(
  ("tolerance", "min_size", "ratio", "batch_size", "expected"),
  [
    (0.5, 1_000, 8.0, 64, 4_000.0),
    (0.1, 1, 8.0, 1, 16.0),  # two inserts' worth, or both sides could block
    (0.1, 1, 0.25, 1, 2.0),  # two samples
    (0.1, 1, 8.0, 64, 36.5),  # between the two sides: a batch and an insert
  ],
)
def test_error_buffer(tolerance, min_size, ratio, batch_size, expected):
  config = dqn.get_config()
  config.replay.tolerance = tolerance
  config.replay.min_size = min_size
  config.replay.samples_per_insert = ratio
  config.learner.batch_size = batch_size
  assert validation.error_buffer(config) == expected


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("preset", dqn.PRESETS)
def test_the_tolerance_of_each_preset_is_what_bounds_it(name, preset):
  config = get_config(name, preset)
  replay, min_size = config.replay, sizes.Sizes.of(config).min_size
  assert validation.error_buffer(config) == (
    replay.tolerance * min_size * replay.samples_per_insert
  )
