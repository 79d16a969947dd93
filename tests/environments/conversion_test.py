"""Tests of conversion between spaces and specs: bounds, and round trips."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from slipway.environments import conversion

# Low bound, high bound, actions of the spec, and those of the space.
RESCALED = [
  (-1.0, 1.0, [-1.0, -0.25, 0.0, 1.0], [-1.0, -0.25, 0.0, 1.0]),
  (-2.0, 2.0, [-1.0, -0.25, 0.0, 1.0], [-2.0, -0.5, 0.0, 2.0]),
  (0.0, 1.0, [-1.0, 0.0, 0.5, 1.0], [0.0, 0.5, 0.75, 1.0]),
  (-3.0, 1.0, [-1.0, 0.0, 0.5, 1.0], [-3.0, -1.0, 0.0, 1.0]),
  (0.1, 0.3, [-1.0, 1.0], [0.1, 0.3]),
  (-0.3, 1e6, [-1.0, 1.0], [-0.3, 1e6]),
  (2.0, 2.0, [-1.0, 0.0, 1.0], [2.0, 2.0, 2.0]),
  (
    -2.0,
    2.0,
    [-7.0, 1.5, np.inf],
    [-2.0, 2.0, 2.0],
  ),  # clipped before the conversion
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("low", "high", "actions", "own"), RESCALED)
def test_actions_are_rescaled_to_the_bounds(low, high, actions, own, dtype):
  space = spaces.Box(low, high, (1,), dtype)
  write = conversion.make_action_converter_to_space(space)
  written = write(np.array(actions, np.float32)[:, None])
  assert written.dtype == dtype
  np.testing.assert_array_equal(written, np.array(own, dtype)[:, None])
  read = conversion.convert_actions_to_spec(space, written)
  assert read.dtype == np.float32
  back = np.clip(actions, -1, 1) if low < high else np.zeros(len(actions))
  np.testing.assert_allclose(read[:, 0], back, atol=1e-6)


def test_each_dimension_has_its_own_bounds():
  space = spaces.Box(np.float32([-1, 0]), np.float32([1, 10]))
  write = conversion.make_action_converter_to_space(space)
  actions = np.float32([[0.5, 0.5], [-1, 1]])
  np.testing.assert_array_equal(write(actions), [[0.5, 7.5], [-1, 10]])


@pytest.mark.parametrize("shape", [(), (1,), (1, 3), (2, 3)])
def test_actions_of_all_axes_are_one_vector(shape):
  space = spaces.Box(
    -1.0, np.arange(1.0, 7.0)[: max(1, math.prod(shape))].reshape(shape), shape
  )
  actions = np.random.default_rng(0).uniform(-1, 1, (5, math.prod(shape)))
  own = conversion.make_action_converter_to_space(space)(actions)
  assert own.shape == (5, *shape)
  assert all(map(space.contains, own))
  read = conversion.convert_actions_to_spec(space, own)
  np.testing.assert_allclose(read, actions, atol=1e-6)


def test_no_rounding_leaves_the_bounds():
  random = np.random.default_rng(0)
  actions = random.uniform(-1, 1, (10_000, 3)).astype(np.float32)
  space = spaces.Box(np.float32([0.1, -1e-7, 1.0]), np.float32([0.3, 1e7, 1.1]))
  own = conversion.make_action_converter_to_space(space)(actions)
  assert all(map(space.contains, own))


@pytest.mark.parametrize(
  ("low", "high", "dtype"),
  [
    (-0.3, 1.1, np.float32),
    (-0.3, 1.1, np.float64),
    (-3e38, 3e38, np.float32),
    (-1e300, 1e300, np.float64),
    (0.1, 0.1, np.float32),
    (1 / 3, 1 / 3, np.float64),
  ],
)
def test_actions_are_finite_and_within_the_bounds(low, high, dtype):
  space = spaces.Box(low, high, (1,), dtype)
  random = np.random.default_rng(0)
  inner = random.uniform(-1.0, 1.0, 10_000)
  actions = np.float32([-1.0, 1.0, 0.0, 9.0, *inner])[:, None]
  own = conversion.make_action_converter_to_space(space)(actions)
  assert all(map(space.contains, own))
  exported = conversion.convert_actions_to_space_with(np, space, actions)
  assert exported.dtype == np.float32
  assert np.isfinite(exported).all()
  if np.float32(low) < high:  # some float32 are elements of the space
    assert all(map(space.contains, exported))


@pytest.mark.parametrize(
  "space", [spaces.Discrete(4), spaces.Discrete(3, start=-1)]
)
def test_discrete_values_survive_a_round_trip(space):
  own = np.arange(space.start, space.start + space.n)
  actions = conversion.convert_actions_to_spec(space, own)
  assert actions.dtype == np.int32
  np.testing.assert_array_equal(actions, np.arange(space.n))
  write = conversion.make_action_converter_to_space(space)
  np.testing.assert_array_equal(write(actions) if write else actions, own)
  read = conversion.make_observation_converter_to_spec(
    space, np.dtype(np.float32), True
  )
  np.testing.assert_array_equal(read(own), np.eye(space.n))
  np.testing.assert_array_equal(
    conversion.convert_observations_to_space(space, read(own)), own
  )


@pytest.mark.parametrize(
  ("dtype", "n", "start"),
  [
    (np.int8, 3, 0),
    (np.int8, 100, -100),
    (np.uint8, 255, 0),
    (np.int16, 4, 2),
    (np.int32, 4, 2),
    (np.uint32, 4, 2),
    (np.int64, 4, 2**40),
    (np.uint64, 4, 2**63 + 5),
  ],
)
def test_discrete_actions_are_elements_of_the_space(dtype, n, start):
  space = spaces.Discrete(n, start=dtype(start), dtype=dtype)
  write = conversion.make_action_converter_to_space(space)
  actions = np.arange(n, dtype=np.int32)
  own = write(actions) if write else actions
  assert all(map(space.contains, own))
  assert [int(action) - start for action in own] == list(range(n))
