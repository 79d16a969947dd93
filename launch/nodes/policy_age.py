"""Policy age: versions by which a batch's policies lag the newest variables.

A version is published every `variables.publish_period` trainer steps, or after
each call of the learner's updates if one call runs more steps than that.
"""

import numpy as np


def metrics(versions: np.ndarray | None, newest: int) -> dict[str, float]:
  """Returns the mean and maximum policy age of a batch, by metric name.

  Args:
    versions: int64 [B, ...], versions of the variables that chose the actions
      of a batch of B items, or None if the data was recorded.
    newest: newest version that was published before the update.

  Returns:
    Ages in versions, or an empty dict for recorded data.
  """
  if versions is None:
    return {}
  return {
    "policy_age_versions_mean": newest - float(versions.mean()),
    "policy_age_versions_max": float(newest - versions.min()),
  }
