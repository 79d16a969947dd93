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
from dm_env import specs

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
  one.reset()
  other.reset()
  for _ in range(_STEPS):
    one.step(_draw(one.spec.actions, random))
  other.set_state(one.get_state())
  for _ in range(_STEPS):
    actions = _draw(one.spec.actions, random)
    if not _equal(one.step(actions), other.step(actions)):
      return False
  # Unseeded: from where the generators are.
  return _equal(one.reset(), other.reset())


def _draw(spec: specs.Array, random: np.random.Generator) -> np.ndarray:
  """Actions [B, ...] of any value that is allowed."""
  if isinstance(spec, specs.DiscreteArray):
    return random.integers(spec.num_values, size=_NUM_ENVS, dtype=np.int32)
  assert isinstance(spec, specs.BoundedArray)
  size = (_NUM_ENVS, *spec.shape)
  return random.uniform(spec.minimum, spec.maximum, size).astype(spec.dtype)


def _equal(arrays, others) -> bool:
  pairs = zip(arrays, others, strict=True)
  return all(a.tobytes() == b.tobytes() for a, b in pairs)
