"""Tests of the settings that can change during a run."""

import math

import pytest

from slipway.configs import dqn
from slipway.launch.control import settings

# field, given value, value in the config
CHANGES = [
  ("rates.environment_steps_per_s", 250, 250.0),
  ("rates.environment_steps_per_s", "0", 0.0),
  ("limits.environment_steps", "50_000", 50_000),
  ("limits.environment_steps", "1e5", 100_000),
  ("limits.environment_steps", 7.0, 7),
  ("limits.trainer_steps", 3, 3),
  ("limits.wall_clock_s", "1e3", 1_000.0),
  ("limits.target_return", "-90", -90.0),
  ("limits.target_return", "inf", math.inf),
  ("limits.episodes", "9", 9),
  ("limits.evaluations_without_improvement", 3, 3),
  ("limits.combine", "all", "all"),
]


@pytest.mark.parametrize(("field", "value", "stored"), CHANGES)
def test_a_change(field, value, stored):
  config = dqn.get_config()
  assert settings.change(config, field, value) == stored
  section, name = field.split(".")
  assert config[section][name] == stored
  assert type(config[section][name]) is type(dqn.get_config()[section][name])


# field, given value, words that the error must contain
REJECTED = [
  ("limits.trainer_step", 3, "did you mean limits.trainer_steps?"),
  ("replay.capacity", 3, "'replay.capacity' is not a field that can change"),
  ("", 3, "use one of rates.environment_steps_per_s, limits."),
  ("trainer_steps", 3, "did you mean limits.trainer_steps?"),
  ("patience", 3, "did you mean limits.evaluations_without_improvement?"),
  ("limits.combine", "both", "must be one of 'any', 'all'"),
  ("limits.combine", 3, "must be one of 'any', 'all'"),
  ("limits.trainer_steps", -1, "config.limits.trainer_steps=-1 must be at"),
  ("limits.trainer_steps", "1.5e0", "type, int, so it stays 0"),
  ("limits.trainer_steps", 1.5, "type, int"),
  ("limits.trainer_steps", math.inf, "type, int"),
  ("limits.trainer_steps", True, "type, int"),
  ("limits.trainer_steps", None, "type, int"),
  ("limits.wall_clock_s", "soon", "limits.wall_clock_s='soon' is not of"),
  ("limits.wall_clock_s", "nan", "must be a number"),
  ("limits.target_return", "nan", "config.limits.target_return=nan"),
  ("rates.environment_steps_per_s", "inf", "must be finite"),
  ("limits.target_info", "success:1", "is not a field that can change"),
]


@pytest.mark.parametrize(("field", "value", "words"), REJECTED)
def test_a_change_that_is_rejected(field, value, words):
  config = dqn.get_config()
  with pytest.raises(ValueError) as error:
    settings.change(config, field, value)
  assert words in str(error.value)
  assert "\n" not in str(error.value)
  assert config == dqn.get_config()
