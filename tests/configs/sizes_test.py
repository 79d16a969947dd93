"""Sizes: transitions of a config, in items of its table."""

import pytest

from configs import dqn, limiter, sizes, value


def make_config(each, capacity=1_000, min_size=100, batch_size=64):
  config = dqn.get_config()
  config.replay.update(
    capacity=capacity, min_size=min_size, transitions_per_item=each
  )
  config.learner.batch_size = batch_size
  return config


@pytest.mark.parametrize(
  ("each", "expected"),
  [(1, (1_000, 100, 64, 1)), (8, (125, 13, 8, 8)), (64, (15, 2, 1, 64))],
)
def test_an_item_has_several_transitions(each, expected):
  config = make_config(each)
  value.check(config)
  assert sizes.Sizes.of(config) == expected


@pytest.mark.parametrize(
  ("each", "shards", "expected"),
  [
    (1, 4, (250, 25, 64, 1)),
    (1, 3, (334, 34, 64, 1)),  # together as many at least
    (8, 2, (63, 7, 8, 8)),
  ],
)
def test_a_shard_has_its_part(each, shards, expected):
  config = make_config(each)
  config.replay.shards = shards
  config.topology.replay = "own_process"
  value.check(config)
  assert sizes.Sizes.of(config) == expected


def test_the_limiter_is_one_shards():
  config = make_config(1)
  config.replay.update(shards=4, samples_per_insert=8.0, tolerance=0.5)
  found = limiter.Limiter.of(config)
  # 25 items: 200 samples, of which half may be missing or too many.
  assert found == (8.0, 25, 100.0, 300.0)


def test_a_batch_is_of_whole_items():
  with pytest.raises(ValueError, match=r"batch_size=64 is no multiple of .*=5"):
    value.check(make_config(5))


def test_the_minimum_fits_into_the_table_in_items_too():
  with pytest.raises(ValueError, match="the table could never hold enough"):
    value.check(make_config(8, capacity=100, min_size=100))
