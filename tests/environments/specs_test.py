"""Tests of the specs that are made from spaces."""

import functools
import pickle

import numpy as np
import pytest
from acme import specs as acme_specs
from gymnasium import spaces

from slipway.environments import arrays, specs, user_code
from tests.environments import given

bounded = functools.partial(acme_specs.BoundedArray, name="observation")
plain = functools.partial(acme_specs.Array, name="observation")
BIT = spaces.Discrete(2)
INF = np.inf


@pytest.mark.parametrize(
  ("space", "expected"),
  [
    (
      spaces.Box(0, 255, (4, 84, 84), np.uint8),
      bounded((4, 84, 84), np.uint8, 0, 255),
    ),
    (spaces.Box(-1, 2, (3,), np.float64), bounded((3,), np.float32, -1.0, 2.0)),
    (
      spaces.Box(np.float32([0, 1]), np.float32([2, 3])),
      bounded((2,), np.float32, [0, 1], [2, 3]),
    ),
    (spaces.Box(-INF, INF, (2, 2), np.float64), plain((2, 2), np.float32)),
    (
      spaces.Box(np.float32([-INF, 0]), np.float32([INF, 1])),
      plain((2,), np.float32),
    ),
    (spaces.Discrete(5, start=3), bounded((5,), np.float32, 0.0, 1.0)),
    (spaces.MultiDiscrete([2, 3]), bounded((5,), np.float32, 0.0, 1.0)),
    (
      spaces.Dict({"a": BIT, "b": spaces.Tuple([spaces.MultiBinary(3), BIT])}),
      plain((7,), np.float32),
    ),
    (
      spaces.Dict({"a": spaces.Box(0, 255, (9, 9), np.uint8)}),
      bounded((9, 9), np.uint8, 0, 255),
    ),
  ],
)
def test_observations(space, expected):
  spec = specs.make_spec("Toy-v0", space, BIT)
  assert type(spec.observations) is type(expected)
  assert spec.observations == expected
  assert spec.rewards == acme_specs.Array((), np.float32, "reward")
  assert spec.discounts == acme_specs.BoundedArray(
    (), np.float32, 0.0, 1.0, "discount"
  )


@pytest.mark.parametrize(
  ("space", "expected"),
  [
    (spaces.Discrete(4), acme_specs.DiscreteArray(4, np.int32, "action")),
    (
      spaces.Discrete(3, start=-1),
      acme_specs.DiscreteArray(3, np.int32, "action"),
    ),
    (
      spaces.Box(-2, 2, (1,), np.float32),
      acme_specs.BoundedArray((1,), np.float32, -1.0, 1.0, "action"),
    ),
  ],
)
def test_actions(space, expected):
  spec = specs.make_spec("Toy-v0", BIT, space)
  assert type(spec.actions) is type(expected)
  assert spec.actions == expected


@pytest.mark.parametrize(
  ("space", "sizes"),
  [
    (spaces.MultiDiscrete([[2, 3], [4, 5]]), (2, 3, 4, 5)),
    (spaces.MultiBinary((2, 1)), (2, 2)),
  ],
)
def test_components_and_masks_survive_a_pickle(space, sizes):
  spec = specs.make_spec("Toy-v0", BIT, space, masked=True)
  for found in (spec, pickle.loads(pickle.dumps(spec))):
    assert found.actions.sizes == sizes
    assert found.actions.shape == (len(sizes),)
    assert found.observations.mask_size == sum(sizes)
    assert found.observations.shape == (2 + sum(sizes),)
  joint = pickle.loads(pickle.dumps(arrays.JointActionArray(sizes)))
  assert joint.num_values == np.prod(sizes)


def box(low, high):
  return spaces.Box(low, high, (2,), np.float32)


# actions of the run, and of an environment of one of its processes
OTHER_ACTIONS = [
  (spaces.Discrete(3), spaces.Discrete(3, start=1)),
  (spaces.Discrete(3), spaces.Discrete(4)),
  (spaces.MultiDiscrete([2, 2]), spaces.MultiDiscrete([2, 2], start=[0, 1])),
  (box(-1.0, 1.0), box(-2.0, 1.0)),
  (box(-1.0, 1.0), spaces.Box(-1.0, np.float32([1.0, 2.0]))),
]


@pytest.mark.parametrize(("run", "process"), OTHER_ACTIONS)
def test_a_process_with_other_actions_than_the_runs_is_rejected(run, process):
  expected, found = (specs.make_spec("Own", BIT, x) for x in (run, process))
  specs.check_equal("Own", pickle.loads(pickle.dumps(expected)), expected)
  with given.one_line(user_code.UserCodeError) as caught:
    specs.check_equal("Own", found, expected)
  assert caught.value.line.startswith("environment Own: actions of this")


def test_continuous_actions_have_no_mask():
  with given.one_line(ValueError, match="action_mask is True, but"):
    specs.make_spec("Toy-v0", BIT, spaces.Box(-1, 1, (2,)), masked=True)


@pytest.mark.parametrize(
  ("observation", "action", "fields"),
  [
    (spaces.Text(3), BIT, ["observation", "is Text(", "and Tuple"]),
    (
      spaces.Dict({"a": spaces.Tuple([BIT, spaces.Text(3)])}),
      BIT,
      ["is Text(", "at observation['a'][1]"],
    ),
    (spaces.Dict(), BIT, ["observation", "has no parts"]),
    (spaces.Box(0, 1, (0,)), BIT, ["observation", "has no numbers"]),
    (BIT, spaces.Box(0, 1, (0,)), ["action", "(0,)"]),
    (BIT, spaces.Dict({"a": BIT}), ["action", "Dict("]),
    (BIT, spaces.Tuple([BIT, BIT]), ["action", "Tuple("]),
    (BIT, spaces.Box(0, 9, (2,), np.int64), ["action", "int64", "floats"]),
    (
      BIT,
      spaces.Box(-INF, INF, (2,)),
      ["action", "inf", "floats with bounds of at most"],
    ),
    # gymnasium prints the bounds of this space in several lines.
    (
      BIT,
      spaces.Box(np.zeros((4, 9)), np.arange(36.0).reshape(4, 9), dtype=int),
      ["action", "int64"],
    ),
  ],
)
def test_other_spaces_are_rejected_in_one_line(observation, action, fields):
  with given.one_line(ValueError) as caught:
    specs.make_spec("Toy-v0", observation, action)
  message = str(caught.value)
  for field in ["config.environment.name is 'Toy-v0'", "supported", *fields]:
    assert field in message


@pytest.mark.parametrize(
  ("observation", "action"),
  [
    (spaces.Discrete(10**9), spaces.Discrete(2)),
    (spaces.Box(0, 1, (2,)), spaces.Discrete(10**9)),
    (spaces.Box(0, 1, (2,)), spaces.MultiDiscrete([10**6, 10**6])),
  ],
)
def test_spaces_with_too_many_values_are_rejected(observation, action):
  with given.one_line(ValueError, match="discrete values"):
    specs.make_spec("Toy-v0", observation, action)
