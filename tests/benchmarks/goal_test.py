"""Goals: their lines, the factors by which they are reached, their picture."""

import math

import pytest

from benchmarks import goal, report


@pytest.mark.parametrize(
  ("made", "factor", "reached"),
  [
    (goal.at_least("speed", 3.0, 2.0), 1.5, True),
    (goal.at_least("speed", 2.0, 2.0), 1.0, True),
    (goal.at_least("speed", 1.0, 2.0), 0.5, False),
    (goal.at_most("seconds", 1.0, 2.0), 2.0, True),
    (goal.at_most("seconds", 8.0, 2.0), 0.25, False),
    (goal.at_most("seconds", math.inf, 2.0), 0.0, False),
    (goal.at_most("growth", -1.0, 2.0), math.inf, True),
  ],
)
def test_a_goal_has_the_factor_by_which_it_was_reached(made, factor, reached):
  assert made.factor == factor
  assert made == f"{made.label}: " + (
    "reached." if reached else "**not reached**."
  )


@pytest.mark.parametrize("with_number", [True, False])
def test_a_page_shows_its_picture_if_it_has_one(with_number, tmp_path):
  line = (
    goal.at_least("speed", 3.0, 2.0)
    if with_number
    else goal.verdict("nothing was lost", True)
  )
  made = report.Report("speed", "Speed", "", [{"a": 1}], [], [line])
  made.write(tmp_path, {})
  page = (tmp_path / "speed.md").read_text()
  assert ("![Goals](speed_goals.png)" in page) == with_number
  assert (tmp_path / "speed_goals.png").exists() == with_number
