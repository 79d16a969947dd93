"""The rules between fields, of each family that has them."""

import pytest

from agents import registry
from configs import catalog, dqn, limiter, r2d2, sizes
from environments import factory

CHECKS = {"dqn": dqn.get_config, "r2d2": r2d2.get_config}


def check(config):
  spec = factory.make_spec(config.environment)
  registry.make_builder(config.agent).check(config, spec)


def make_config(agent="dqn", **changes):
  config = CHECKS[agent]()
  config.update_from_flattened_dict(
    {name.replace("__", "."): value for name, value in changes.items()}
  )
  return config


def message_of(config):
  with pytest.raises(ValueError) as error:
    check(config)
  message = str(error.value)
  assert "\n" not in message
  return message


# agent, fields, what the line must contain
REFUSED = [
  ("dqn", {"topology__workers": 0}, "workers=0 must be in [1, 256]: nothing"),
  ("r2d2", {"topology__workers": 0}, "workers=0 must be in [1, 256]: nothing"),
  ("dqn", {"network__lowest_return": 100.0}, "would lie on one return"),
  (
    "dqn",
    {"learner__munchausen_scale": 0.9, "network__head": "quantile"},
    "takes a policy from values",
  ),
  (
    "dqn",
    {"learner__munchausen_scale": 0.9, "adder__n_step": 3},
    "rewards the first action only",
  ),
  (
    "dqn",
    {"replay__capacity": 63},
    "config.replay.capacity=63 is below config.learner.batch_size=64: ",
  ),
  (
    "dqn",
    {"replay__min_size": 50_001},
    "config.replay.min_size=50001 is above config.replay.capacity=50000: ",
  ),
  (
    "dqn",
    {"mode": "sync", "replay__samples_per_insert": 0.0},
    "config.replay.samples_per_insert=0.0 is no ratio",
  ),
  (
    "dqn",
    {"replay__shards": 4},
    "config.replay.shards=4 needs processes of their own, but with "
    "config.topology.replay='with_trainer' ",
  ),
  (
    "dqn",
    {
      "replay__shards": 4,
      "topology__replay": "own_process",
      "mode": "single",
    },
    "config.replay.shards=4 is not for mode 'single'",
  ),
  (
    "dqn",
    {
      "replay__shards": 4,
      "topology__replay": "own_process",
      "replay__capacity": 252,
      "replay__min_size": 100,
    },
    "config.replay.capacity=252 in 4 shards is below "
    "config.learner.batch_size=64: ",
  ),
  ("r2d2", {"adder__period": 21}, "would never be learned"),
  ("r2d2", {"replay__transitions_per_item": 4}, "are sequences"),
]


@pytest.mark.parametrize(("agent", "changes", "line"), REFUSED)
def test_what_does_not_go_together(agent, changes, line):
  assert line in message_of(make_config(agent, **changes))


@pytest.mark.parametrize(
  "changes",
  [
    {"replay__capacity": 64, "replay__min_size": 64},
    {"replay__min_size": 50_000},
    {"replay__samples_per_insert": 0.0},
    {"replay__shards": 4, "topology__replay": "own_process"},
    {
      "replay__shards": 4,
      "topology__replay": "own_process",
      "replay__capacity": 255,
      "replay__min_size": 100,
    },
  ],
)
def test_what_just_fits(changes):
  check(make_config(**changes))


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
  assert limiter.error_buffer(config) == expected


@pytest.mark.parametrize("name", catalog.algorithms())
def test_the_tolerance_of_each_preset_is_what_bounds_it(name):
  module = catalog.algorithms()[name]
  for preset in module.PRESETS:
    config = module.get_config(preset)
    replay, min_size = config.replay, sizes.Sizes.of(config).min_size
    assert limiter.error_buffer(config) == (
      replay.tolerance * min_size * replay.samples_per_insert
    )
