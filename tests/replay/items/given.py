"""Priorities that the tests of adders give."""

import numpy as np

# Names of the extras, of a step and of an observation.
VALUES = ("value_of_action", "value_of_state")


class Priority:
  """A priority that needs both extras, and calls a function of the fields."""

  step_extras, observation_extras = VALUES[:1], VALUES[1:]

  def __init__(self, function):
    self._function = function

  def __call__(self, fields):
    return np.asarray(self._function(fields), np.float32)


ZERO = Priority(lambda fields: np.zeros(len(fields[VALUES[0]])))
