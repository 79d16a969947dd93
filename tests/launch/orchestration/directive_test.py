"""Directives: what each node is asked."""

import pytest

from launch.orchestration import directive

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
  told = directives.to(role, 0, stop)
  workers = expected["worker"] if role == "worker" else 0
  assert told == directive.Directive(stop, paused, share, workers=workers)
  assert directive.Directive._make(tuple(told)) == told


def test_nothing_is_asked_by_default():
  assert directive.Directive() == (False, False, 0.0, None, 0, 0, 0)
  told = directive.Directives({"worker": 1}, 0.0).to("worker", 0, stop=False)
  assert told == directive.Directive(workers=1)


def test_workers_that_are_too_many_are_told_to_stop():
  directives = directive.Directives({"worker": 3}, 60.0)
  directives.workers = 2
  told = [directives.to("worker", i, stop=False) for i in range(3)]
  assert [each.stop for each in told] == [False, False, True]
  assert told[0].workers == 2
  assert told[0].steps_per_s == 30.0


def test_what_only_the_trainer_is_told():
  directives = directive.Directives({"worker": 1, "proxy": 1}, 0.0)
  directives.trainer_steps, directives.saves = 70, 2
  directives.collected_version = 5
  told = directives.to("trainer", 0, stop=False)
  assert told == directive.Directive(
    trainer_steps=70, saves=2, collected_version=5
  )
  for role in ("proxy", "evaluator"):
    assert directives.to(role, 0, stop=False) == directive.Directive()
