"""Tests of config files: what they keep of arguments, and what they reject."""

import collections
import enum

import pytest

from slipway.configs import dqn
from slipway.launch.runs import config_file


class Level(enum.IntEnum):
  EASY = 1


class Mode(enum.StrEnum):
  FAST = "fast"


Point = collections.namedtuple("Point", "x y")


def make_config(kwargs):
  config = dqn.get_config()
  config.environment.kwargs = kwargs
  return config


def test_arguments_keep_the_order_of_their_keys():
  kwargs = {"sensors": {"lidar": 3, "camera": 2}, "parts": [{"b": 1, "a": 2}]}
  config = make_config(kwargs)
  read = config_file.from_json(config_file.to_json(config))
  copied = read.copy_and_resolve_references()
  for kept in (config, read, copied):
    assert repr(kept.environment.kwargs.to_dict()) == repr(kwargs)


@pytest.mark.parametrize(
  "value",
  [Level.EASY, Mode.FAST, Point(1, 2), collections.OrderedDict(a=1)],
)
def test_values_that_would_lose_their_type_are_rejected(value):
  for kwargs in ({"x": [value]}, {"x": {"y": (value,)}}):
    with pytest.raises(ValueError, match=type(value).__name__) as caught:
      config_file.to_json(make_config(kwargs))
    assert "config.environment.kwargs.x" in str(caught.value)
    assert "\n" not in str(caught.value)
