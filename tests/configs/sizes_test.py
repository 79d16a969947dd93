"""Sizes: transitions of a config, in items of its table."""

import pytest

from configs import dqn, sizes, validation


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
  validation.validate(config)
  assert sizes.Sizes.of(config) == expected


def test_a_batch_is_of_whole_items():
  with pytest.raises(ValueError, match=r"batch_size=64 is no multiple of .*=5"):
    validation.validate(make_config(5))


def test_the_minimum_fits_into_the_table_in_items_too():
  with pytest.raises(ValueError, match="the table could never hold enough"):
    validation.validate(make_config(8, capacity=100, min_size=100))
