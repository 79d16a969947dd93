"""Tests of the ages of the policies that collected a batch."""

import numpy as np
import pytest

from slipway.launch.nodes import policy_age

# versions of a batch, the newest version, mean and maximum of the ages
CASES = [
  ([1], 1, 0.0, 0.0),
  ([7, 7, 7], 9, 2.0, 2.0),
  ([1, 2, 6], 6, 3.0, 5.0),
  ([2**40, 2**40 + 1], 2**40 + 1, 0.5, 1.0),
]


@pytest.mark.parametrize(("versions", "newest", "mean", "most"), CASES)
def test_ages(versions, newest, mean, most):
  found = policy_age.metrics(np.array(versions, np.int64), newest)
  assert found == {
    "policy_age_versions_mean": mean,
    "policy_age_versions_max": most,
  }
  assert all(isinstance(value, float) for value in found.values())
