"""Policy age: measures how old the variables are that collected a batch.

Ages are in versions. A version is published every `variables.publish_period`
trainer steps, or after each call of the updates if that is longer.
"""

import numpy as np


def metrics(versions: np.ndarray | None, newest: int) -> dict[str, float]:
  """Returns the mean and maximum age of a batch's policies, by metric name.

  Args:
    versions: int64 [B, ...], versions of the variables that chose the actions
      of a batch of B items, or None if the data was recorded.
    newest: newest version that was published before the update.
  """
  if versions is None:
    return {}
  return {
    "policy_age_versions_mean": newest - float(versions.mean()),
    "policy_age_versions_max": float(newest - versions.min()),
  }
