"""Tests of TableSpec: sizes in transitions are converted to items."""

import ml_collections
import pytest

from slipway.replay.tables import limiter, table_spec
from tests.replay import given


def make_config(each=1, shards=1, batch_size=64, **replay):
  return ml_collections.ConfigDict(
    {
      "replay": {
        "capacity": 1_000,
        "min_size": 100,
        "sampler": "prioritized",
        "priority_exponent": 0.6,
        "samples_per_insert": 8.0,
        "tolerance": 0.5,
        "transitions_per_item": each,
        "shards": shards,
        **replay,
      },
      "learner": {"batch_size": batch_size},
      "sync": {"environment_steps": 256},
    }
  )


def make_spec(config, each=1):
  schema = given.RecordSchema((8 * each,), each)
  return table_spec.TableSpec.from_replay_config(config, schema, each)


# Transitions per item, shards, and the sizes of each shard in items: capacity,
# minimum size and batch size.
SIZES = [
  (1, 1, (1_000, 100, 64)),
  (8, 1, (125, 13, 8)),
  (64, 1, (15, 2, 1)),
  (1, 4, (250, 25, 64)),
  (1, 3, (334, 34, 64)),  # rounded up: the sum is at least the config's size
  (8, 2, (63, 7, 8)),
]


@pytest.mark.parametrize(("each", "shards", "expected"), SIZES)
def test_sizes_are_in_items_of_a_shard(each, shards, expected):
  spec = make_spec(make_config(each, shards), each)
  assert (spec.capacity, spec.min_size, spec.batch_size) == expected
  assert (spec.steps_per_item, spec.shards) == (each, shards)
  assert spec.schema.transitions_per_item == each


def test_a_sequence_is_one_item_of_a_batch():
  spec = table_spec.TableSpec.from_replay_config(
    make_config(batch_size=16), given.RecordSchema((8,)), steps_per_item=40
  )
  assert (spec.capacity, spec.min_size, spec.batch_size) == (25, 3, 16)
  assert spec.steps_per_item == 40


def test_the_limiter_is_that_of_one_shard():
  spec = make_spec(make_config(shards=4))
  # 25 items grant 200 samples, from which the samples may differ by half.
  assert spec.limiter == (8.0, 25, 100.0, 300.0)
  assert spec.round_limiter == limiter.Limiter.from_min_size(25, 8.0)


def test_without_a_ratio_only_the_minimum_limits():
  spec = make_spec(make_config(samples_per_insert=0.0))
  assert spec.limiter == limiter.Limiter.from_min_size(100)


@pytest.mark.parametrize(
  ("sampler", "exponent"), [("prioritized", 0.6), ("uniform", None)]
)
def test_only_a_prioritized_table_has_an_exponent(sampler, exponent):
  spec = make_spec(make_config(sampler=sampler))
  assert spec.priority_exponent == exponent
  assert spec.prioritized == (exponent is not None)
  assert not spec.is_queue
  assert spec.round_steps == 256


def make_queue(max_age, mode="async"):
  config = ml_collections.ConfigDict(
    {
      "mode": mode,
      "replay": {"shards": 2},
      "learner": {"batch_size": 16},
      "topology": {"workers": 4, "environments_per_worker": 8},
      "variables": {"max_age": max_age},
    }
  )
  return table_spec.TableSpec.from_queue_config(
    config, given.RecordSchema((8,)), 20
  )


def test_a_queue_holds_the_batches_that_max_age_leaves():
  # Of the 4 batches that `max_age` allows, the trainer has one. The 16
  # unfinished rollouts per server are another. The queue holds the other two.
  spec = make_queue(4)
  assert (spec.capacity, spec.batch_size, spec.shards) == (32, 16, 2)
  assert spec.is_queue and not spec.prioritized
  assert spec.round_steps is None
  assert spec.limiter == limiter.Limiter(1.0, 1, 0.0, 32)
  assert spec.round_limiter == limiter.Limiter(1.0, 1, 0.0, limiter.UNBOUNDED)


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_queue_holds_a_batch(mode):
  assert make_queue(2, mode).capacity == 16
