"""Saving: tests whether environments continue exactly from a pickle.

| environments | result of pickling |
|---|---|
| CartPole, and others in pure Python and NumPy | exact |
| `ALE/*` | an error: their state is in C++ |
| LunarLander, others with `gymnasium.utils.EzPickle` | no error, no state |

For the last kind, unpickling makes a new environment from the same constructor
arguments. So a test with separate environments decides whether a pickle works.
"""

import ml_collections
import numpy as np

from slipway.environments import factory, vector

_STEPS = 100  # number of steps before the pickle, and also after it
_NUM_ENVS = 2


def is_exact(config: ml_collections.ConfigDict) -> bool:
  """Returns whether restored environments continue exactly like the saved ones.

  Args:
    config: `environment` section of a config, as for `factory.make`.

  Raises:
    ValueError: as `factory.make`.
  """
  saved = factory.make(config, _NUM_ENVS, seed=0)
  restored = factory.make(config, _NUM_ENVS, seed=1)
  try:
    return _continues_equally(saved, restored)
  except Exception:  # Environments without support may raise any error.
    return False
  finally:
    saved.close()
    restored.close()


def _continues_equally(
  saved: vector.VectorEnvironment, restored: vector.VectorEnvironment
) -> bool:
  """Restores the state of `saved` in `restored`, and compares their steps."""
  random = np.random.default_rng(0)
  step = saved.reset()
  restored.reset()
  for _ in range(_STEPS):
    step = saved.step(saved.sample_actions(step.observation, random))
  restored.set_state(saved.get_state())
  for _ in range(_STEPS):
    actions = saved.sample_actions(step.observation, random)
    step = saved.step(actions)
    if not _equal(step, restored.step(actions)):
      return False
  # Resets without a seed use the state of the random generators.
  return _equal(saved.reset(), restored.reset())


def _equal(arrays, others) -> bool:
  """Returns whether all arrays of two `StepBatch`es are bit-identical."""
  pairs = zip(arrays, others, strict=True)
  return all(a.tobytes() == b.tobytes() for a, b in pairs)
