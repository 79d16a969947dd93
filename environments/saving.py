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

_STEPS = 100  # before the pickle, and after it
_NUM_ENVS = 2


def is_exact(config: ml_collections.ConfigDict) -> bool:
  """Returns whether restored environments continue exactly like the saved ones.

  Args:
    config: `environment` section of a config, as for `factory.make`.

  Raises:
    ValueError: as `factory.make`.
  """
  one = factory.make(config, _NUM_ENVS, seed=0)
  other = factory.make(config, _NUM_ENVS, seed=1)
  try:
    return _continues_equally(one, other)
  except Exception:  # Environments without support may raise any error.
    return False
  finally:
    one.close()
    other.close()


def _continues_equally(
  one: vector.VectorEnvironment, other: vector.VectorEnvironment
) -> bool:
  random = np.random.default_rng(0)
  step = one.reset()
  other.reset()
  for _ in range(_STEPS):
    step = one.step(one.sample_actions(step.observation, random))
  other.set_state(one.get_state())
  for _ in range(_STEPS):
    actions = one.sample_actions(step.observation, random)
    step = one.step(actions)
    if not _equal(step, other.step(actions)):
      return False
  # Resets without a seed use the state of the random generators.
  return _equal(one.reset(), other.reset())


def _equal(arrays, others) -> bool:
  pairs = zip(arrays, others, strict=True)
  return all(a.tobytes() == b.tobytes() for a, b in pairs)
