"""Directives: shares of the rate, and rates that are refused."""

import math

import pytest

from launch import directive

# rate, nodes, role, its share
SHARES = [
  (0.0, {"worker": 4}, "worker", 0.0),
  (100.0, {"worker": 4, "proxy": 1}, "worker", 25.0),
  (100.0, {"worker": 4, "proxy": 1}, "proxy", 100.0),
  (100.0, {"worker": 4, "proxy": 2}, "proxy", 50.0),
  (100.0, {"worker": 4, "trainer": 1}, "trainer", 0.0),
  (100.0, {"worker": 4, "evaluator": 1}, "evaluator", 0.0),
  (100.0, {"worker": 4, "replay": 1}, "replay", 0.0),
]


@pytest.mark.parametrize(("steps_per_s", "expected", "role", "share"), SHARES)
@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("stop", [False, True])
def test_a_directive(steps_per_s, expected, role, share, paused, stop):
  directives = directive.Directives(expected, steps_per_s)
  directives.paused = paused
  told = directives.to(role, stop)
  assert told == directive.Directive(stop, paused, share)
  assert directive.Directive._make(tuple(told)) == told


def test_nothing_is_asked_by_default():
  assert directive.Directive() == (False, False, 0.0, None)
  told = directive.Directives({"worker": 1}, 0.0).to("worker", stop=False)
  assert told == directive.Directive()


@pytest.mark.parametrize(
  "value", [-1, -0.5, math.nan, math.inf, -math.inf, None, "100"]
)
def test_a_rate_that_is_none(value):
  directives = directive.Directives({"worker": 1}, 30.0)
  with pytest.raises(ValueError) as error:
    directives.set_steps_per_s(value)
  assert str(error.value).startswith(f"environment_steps_per_s={value!r} must")
  assert "\n" not in str(error.value)
  assert directives.steps_per_s == 30.0
  directives.set_steps_per_s(0)
  assert directives.steps_per_s == 0.0
