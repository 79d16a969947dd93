"""Tests of a sweep's axes as written on the command line."""

import math

import pytest

from slipway.launch.sweeps import space


def test_a_grid_has_all_combinations():
  axes = [
    space.parse("learner.learning_rate,learner.batch_size=1e-4,32;3e-4,64"),
    space.parse("config.network.hidden_sizes=(64,64),(256,)"),
  ]
  space.check(axes)
  grid = space.make_grid(axes)
  assert len(grid) == 4
  assert grid[1] == {
    "learner.learning_rate": "1e-4",
    "learner.batch_size": "32",
    "network.hidden_sizes": "(256,)",
  }
  assert space.to_flags(grid[3]) == [
    "--config.learner.learning_rate=3e-4",
    "--config.learner.batch_size=64",
    "--config.network.hidden_sizes=(256,)",
  ]


def test_without_an_axis_there_is_one_setting():
  assert space.make_grid([]) == [{}]
  assert space.describe({}) == "as configured"


def test_configs_are_an_axis():
  (axis,) = [space.parse("config=dqn:cartpole,ppo:cartpole")]
  assert space.to_flags(space.make_grid([axis])[1]) == ["--config=ppo:cartpole"]


def test_samples_stay_in_their_ranges_and_are_reproducible():
  axes = [
    space.parse("learner.learning_rate=log:1e-5..1e-1"),
    space.parse("learner.batch_size=8..64"),
    space.parse("learner.tau=0.0..2.0"),
    space.parse("mode_of_mine=a,b"),
  ]
  sampled = [space.draw(axes, seed=3, index=i) for i in range(400)]
  rates = sorted(float(x["learner.learning_rate"]) for x in sampled)
  assert rates[0] >= 1e-5
  assert rates[-1] <= 1e-1
  assert math.log10(rates[200]) == pytest.approx(-3, abs=0.3)
  sizes = {int(x["learner.batch_size"]) for x in sampled}
  assert min(sizes) == 8
  assert max(sizes) == 64
  assert all(
    "." in x["learner.tau"] or "e" in x["learner.tau"] for x in sampled
  )
  assert {x["mode_of_mine"] for x in sampled} == {"a", "b"}
  assert sampled[7] == space.draw(axes, seed=3, index=7)
  assert sampled[7] != space.draw(axes, seed=4, index=7)


@pytest.mark.parametrize(
  ("text", "is_integer"),
  [
    ("limits.environment_steps=1e3..1e5", True),
    ("replay.capacity=log:1e3..1e5", True),
    ("learner.batch_size=8..64", True),
    ("limits.wall_clock_s=1e1..1e2", False),
    ("replay.capacity=1.5..3.5", False),
    ("field_of_mine=1e1..1e2", False),
  ],
)
def test_a_range_has_the_type_of_its_field(text, is_integer):
  axis = space.parse(text)
  sampled = {*space.draw([axis], seed=0, index=0).values()}.pop()
  assert sampled.isdigit() is is_integer


@pytest.mark.parametrize(
  ("text", "line"),
  [
    ("learner.tau", "has no field or no values"),
    ("=1,2", "has no field or no values"),
    ("a,b=1,2;3", "'3' has 1 values for 2 fields"),
    ("a=1,,2", "has an empty value"),
    ("a=1e-3,2,0.001", "'0.001' is equal to '1e-3'"),
    ("a=uniform,uniform", "'uniform' is equal to 'uniform'"),
    ("a,b=1,x;2,x;1.0,x", "'1.0,x' is equal to '1,x'"),
    ("seed=1,2", "give --seeds=NUMBER"),
    ("a=0..99999999999999999999", "is no range"),
    ("a,a=1,2", "names a field twice"),
    ("a=2..1", "is no range"),
    ("a=log:0..1", "is no range"),
    ("a=x..1", "is no range"),
    ("a=1e-4..x", "is no range"),
    ("a=1e-4..", "is no range"),
    ("a=log:x..y", "is no range"),
  ],
)
def test_a_wrong_axis_raises_one_line(text, line):
  with pytest.raises(ValueError, match=line) as caught:
    space.parse(text)
  assert "\n" not in str(caught.value)


def test_a_field_has_one_axis():
  with pytest.raises(ValueError, match=r"sets learner\.tau twice"):
    space.check([space.parse("learner.tau=1,2"), space.parse("learner.tau=3")])


def test_a_range_is_no_grid():
  with pytest.raises(ValueError, match="is a range"):
    space.make_grid([space.parse("learner.tau=0.1..0.2")])


def test_a_narrow_range_keeps_its_bounds_and_its_digits():
  axis = space.parse("adder.discount=0.999..0.99999")
  sampled = [
    float(space.draw([axis], 1, i)["adder.discount"]) for i in range(300)
  ]
  assert min(sampled) >= 0.999
  assert max(sampled) <= 0.99999
  assert len({*sampled}) > 200


def test_modes_and_paths_of_configs_are_values_too():
  axes = [space.parse("mode=sync,single"), space.parse("config=../a.py,b.py")]
  assert space.to_flags(space.make_grid(axes)[0]) == [
    "--mode=sync",
    "--config=../a.py",
  ]


@pytest.mark.parametrize(
  "paths", [["../a", "../b"], ["../a"], ["a/../b"], ["../1", "../2"]]
)
def test_relative_paths_are_values(paths):
  axis = space.parse(f"dataset.path={','.join(paths)}")
  assert space.make_grid([axis]) == [{"dataset.path": x} for x in paths]


def test_fields_of_equal_names_are_shown_with_their_section():
  assert space.describe({"a.x": "1", "b.y": "2"}) == "x=1 y=2"
  assert space.describe({"a.x": "1", "b.x": "2"}) == "a.x=1 b.x=2"
