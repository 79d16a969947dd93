"""Environment spec for tests of networks."""

import numpy as np
from acme import specs


def make_spec(shape=(4,), dtype=np.float32, actions=3):
  return specs.EnvironmentSpec(
    observations=specs.Array(shape, dtype),
    actions=specs.DiscreteArray(actions),
    rewards=specs.Array((), np.float32),
    discounts=specs.BoundedArray((), np.float32, 0, 1),
  )
