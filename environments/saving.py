"""Saving: whether environments go on from a pickle as if nothing had been.

| environments | pickled |
|---|---|
| CartPole, and others in pure Python and NumPy | exactly |
| `ALE/*` | cannot be: they live in C++ |
| LunarLander, others with `gymnasium.utils.EzPickle` | seem to be |

Of the last, new ones come back, made by the same arguments. So what a pickle is
worth is tried out, on environments of its own.
"""

import ml_collections
import numpy as np

from slipway.environments import factory, vector

_STEPS = 100  # before the pickle, and after it
_NUM_ENVS = 2


def is_exact(config: ml_collections.ConfigDict) -> bool:
  """Whether environments of a config step equally once restored.

  Args:
    config: as for `factory.make`.

  Raises:
    ValueError: as `factory.make`.
  """
  one = factory.make(config, _NUM_ENVS, seed=0)
  other = factory.make(config, _NUM_ENVS, seed=1)
  try:
    return _go_on_equally(one, other)
  except Exception:  # Of any kind: nobody has made them for this.
    return False
  finally:
    one.close()
    other.close()


def _go_on_equally(
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
  # Unseeded: from where the generators are.
  return _equal(one.reset(), other.reset())


def _equal(arrays, others) -> bool:
  pairs = zip(arrays, others, strict=True)
  return all(a.tobytes() == b.tobytes() for a, b in pairs)
