"""Tests of limits: their descriptions."""

import numpy as np
import pytest

from slipway.configs import dqn, ppo
from slipway.launch.control import limits

# values of the section `limits`, expected description
DESCRIBED = [
  ({"target_return": 475.0, "target_evaluations": 3},
   "a mean return of 475 (3 evaluations in a row)"),
  ({"target_return": -100.0, "target_evaluations": 1},
   "a mean return of -100"),
  ({"target_return": float("inf")}, ""),
  ({"target_return": float("inf"), "target_info": "a:b:0.9"},
   "a mean of a:b:0.9 in infos (3 evaluations in a row)"),
  ({"target_return": float("inf"), "environment_steps": 10_000,
    "wall_clock_s": 90.0},
   "10,000 environment steps or 90 s of wall-clock time"),
  ({"target_return": float("inf"), "trainer_steps": 5, "episodes": 7,
    "combine": "all"},
   "5 trainer steps and 7 episodes"),
]  # fmt: skip


@pytest.mark.parametrize("values, text", DESCRIBED)
def test_a_description_names_all_limits_that_are_set(values, text):
  config = dqn.get_config("cartpole").limits
  config.update(values)
  assert limits.describe(config) == text


# target, mean returns of evaluations, number of the last ones at the target
REACHED = [
  (0.9, [0.9, float(np.float32(0.9)), sum([0.1] * 9)], 3),
  (1.0, [sum([0.1] * 10), 1.0], 2),
  (-1.0, [-float(np.float32(0.1)) * 10, -1.0], 2),
  (475.0, [475.0, 474.9, 475.0], 1),
  (1e6, [999_999.0], 0),
  (0.0, [sum([0.1] * 10) - 1.0, -1.1e-16], 2),
  (0.0, [0.0, -1e-6], 0),
  (float("inf"), [1e15], 0),
]


@pytest.mark.parametrize("target, returns, count", REACHED)
def test_a_target_is_reached_up_to_rounding(target, returns, count):
  config = dqn.get_config("cartpole").limits
  config.target_return = target
  assert limits.count_at_targets(config, returns, [])[0] == count


# values of the section `limits`, whether the run ends before its first update
STEPS = [
  ({"environment_steps": 999}, True),
  ({"environment_steps": 1_000}, False),
  ({"environment_steps": 0}, False),
  ({"environment_steps": 999, "trainer_steps": 5, "combine": "all"}, False),
]


@pytest.mark.parametrize("values, is_short", STEPS)
def test_advice_for_a_run_that_learns_nothing(values, is_short):
  config = dqn.get_config("cartpole")  # with a replay.min_size of 1,000
  config.limits.target_return = float("inf")
  config.limits.update(values)
  assert ("before its first update" in limits.advise(config)) == is_short
  config = ppo.get_config("cartpole")  # without a replay table
  config.limits.update(values)
  assert limits.advise(config) == ""
