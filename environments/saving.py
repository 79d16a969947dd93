"""Saving: tests whether pickled environments continue exactly.

| environments | result of pickling |
|---|---|
| CartPole, and others in pure Python and NumPy | exact |
| `ALE/*` | an error: their state is in C++ |
| LunarLander, others with `gymnasium.utils.EzPickle` | no error, no state |

For environments with EzPickle, unpickling only repeats the constructor call. So
a test compares the steps of saved and restored environments.
"""

import contextlib
from collections.abc import Callable

import ml_collections
import numpy as np
from absl import logging

from slipway.environments import checked, factory, user_code, vector

# Steps of the test before the environments are saved, and as many afterwards.
_STEPS = 100
# Environments in each of the two batches that the test compares.
_NUM_ENVS = 2


def is_exact(
  config: ml_collections.ConfigDict,
  should_stop: Callable[[], bool] = lambda: False,
) -> bool | None:
  """Returns whether restored environments continue exactly like the saved ones.

  The function makes two batches of environments, and steps them. If a step,
  saving or restoring raises an error, the result is False. An error in `close`
  is only logged.

  Args:
    should_stop: function called before each step; True stops the test, and the
      result is None.

  Raises:
    ValueError: as `factory.make`.
  """
  with contextlib.ExitStack() as resources:
    saved = factory.make(config, _NUM_ENVS, seed=0)
    resources.callback(_close, saved)
    restored = factory.make(config, _NUM_ENVS, seed=1)
    resources.callback(_close, restored)
    try:
      return _continues_equally(saved, restored, should_stop)
    except Exception:  # Environments without support may raise any error.
      return False


def try_get_state(environment: vector.VectorEnvironment) -> bytes | None:
  """Returns the state of environments, or None if pickling it fails.

  Environments that `is_exact` accepts may still open a file or a socket later.
  The first failure is logged as a warning.
  """
  try:
    return environment.get_state()
  except Exception as error:  # Pickling calls the user's own code.
    logging.log_first_n(
      logging.WARNING,
      "%s can no longer be saved during an episode (%s), so snapshots do not "
      "contain its episodes: a resumed run begins new ones",
      1,
      environment.name,
      user_code.describe(error),
    )
    return None


def _close(environment: vector.VectorEnvironment) -> None:
  """Closes environments, and logs an error of theirs instead of raising it."""
  try:
    environment.close()
  except checked.EnvironmentFailedError as error:
    logging.warning("the test of saving environments: %s", error.line)


def _continues_equally(
  saved: vector.VectorEnvironment,
  restored: vector.VectorEnvironment,
  should_stop: Callable[[], bool],
) -> bool | None:
  """Returns whether two batches with equal states make equal steps."""
  random = np.random.default_rng(0)
  step = saved.reset()
  restored.reset()
  for count in range(2 * _STEPS):
    if should_stop():
      return None
    if count == _STEPS:
      restored.set_state(saved.get_state())
    actions = saved.sample_actions(step.observation, random)
    step = saved.step(actions)
    if count >= _STEPS and not is_identical(step, restored.step(actions)):
      return False
  # Resets without a seed use the state of the random generators.
  return is_identical(saved.reset(), restored.reset())


def is_identical(step: vector.StepBatch, other: vector.StepBatch) -> bool:
  """Returns whether all arrays of two steps are bit-identical."""
  pairs = zip(step, other, strict=True)
  return all(a.tobytes() == b.tobytes() for a, b in pairs)
