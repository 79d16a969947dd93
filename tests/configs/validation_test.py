"""Validation: each bad value is named with its field."""

import math

import pytest

from configs import catalog, dqn, r2d2, sizes, validation


def with_value(field, value):
  part, _, name = field.rpartition(".")
  config = dqn.get_config()
  if part and name not in config[part]:
    config = r2d2.get_config()
  part = config[part] if part else config
  with part.ignore_type():
    part[name] = value
  return config


def message_of(config):
  with pytest.raises(ValueError) as error:
    validation.validate(config)
  message = str(error.value)
  assert "\n" not in message
  return message


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
  ("network.head", "gaussian"),
  ("network.atoms", 1),
  ("network.quantiles", 0),
  ("network.cosines", 0),
  ("network.noisy_std", 0.0),
  ("network.lstm_size", 0),
  ("adder.burn_in", -1),
  ("adder.unroll", 0),
  ("adder.period", 0),
  ("learner.munchausen_scale", 1.1),
  ("learner.munchausen_temperature", 0.0),
  ("learner.munchausen_lowest", 0.1),
  ("replay.eta", 1.1),
  ("replay.sampler", "fifo"),
  ("replay.min_size", 0),
  ("replay.samples_per_insert", -1.0),
  ("replay.samples_per_insert", math.inf),
  ("replay.transitions_per_item", 0),
  ("replay.shards", 0),
  ("replay.shards", 17),
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
  ("topology.machines", -1),
  ("topology.home_workers", 257),
  ("topology.trainer_machine", "head"),
  ("topology.trainer_cpus", -1.0),
  ("topology.trainer_gpus", -1.0),
  ("topology.cpus_per_worker", -0.5),
  ("evaluation.episodes", 0),
  ("evaluation.period_s", -1.0),
  ("evaluation.period_steps", 0),
  ("snapshot.period_s", 0.0),
  ("snapshot.keep", 0),
  ("snapshot.url", "runs/shared"),
  ("snapshot.url", "s3:bucket"),
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


@pytest.mark.parametrize(
  ("changes", "line"),
  [
    ({"network.lowest_return": 100.0}, "would lie on one return"),
    (
      {"learner.munchausen_scale": 0.9, "network.head": "quantile"},
      "takes a policy from values",
    ),
    (
      {"learner.munchausen_scale": 0.9, "adder.n_step": 3},
      "rewards the first action only",
    ),
  ],
)
def test_what_does_not_go_together(changes, line):
  config = dqn.get_config()
  config.update_from_flattened_dict(changes)
  assert line in message_of(config)


@pytest.mark.parametrize(
  ("field", "value", "line"),
  [
    ("adder.period", 21, "would never be learned from"),
    ("replay.transitions_per_item", 4, "are sequences"),
  ],
)
def test_sequences_that_would_leave_out(field, value, line):
  config = r2d2.get_config()
  config.update_from_flattened_dict({field: value})
  assert line in message_of(config)


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


def make_sharded(**topology):
  config = with_value("replay.shards", 4)
  config.topology.replay = "own_process"
  config.topology.update(topology)
  return config


def test_shards_need_processes_of_their_own():
  validation.validate(make_sharded())
  assert message_of(make_sharded(replay="with_trainer")).startswith(
    "config.replay.shards=4 needs processes of their own, but "
    "config.topology.replay='with_trainer' "
  )
  config = make_sharded()
  config.mode = "single"
  assert message_of(config).startswith(
    "config.replay.shards=4 is not for mode 'single'"
  )


def test_a_batch_is_of_one_shard():
  config = make_sharded()
  config.replay.update(capacity=255, min_size=100)
  validation.validate(config)
  config.replay.capacity = 252
  assert message_of(config).startswith(
    "config.replay.capacity=252 in 4 shards is below "
    "config.learner.batch_size=64: "
  )


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


@pytest.mark.parametrize("name", catalog.algorithms())
@pytest.mark.parametrize("preset", catalog.PRESETS)
def test_the_tolerance_of_each_preset_is_what_bounds_it(name, preset):
  config = catalog.algorithms()[name].get_config(preset)
  replay, min_size = config.replay, sizes.Sizes.of(config).min_size
  assert validation.error_buffer(config) == (
    replay.tolerance * min_size * replay.samples_per_insert
  )
