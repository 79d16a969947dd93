"""Policy age: how much older the acting variables are than the learning ones.

A version comes every `variables.publish_period` trainer steps, or with each
call of the updates where that is longer: an age times that many is an age in
trainer steps.
"""

import numpy as np


def metrics(versions: np.ndarray | None, newest: int) -> dict[str, float]:
  """Returns the ages of what a batch was collected with.

  Args:
    versions: int64 [B, ...], of the variables that chose the actions; None: the
      data was recorded.
    newest: the last version that was published before the batch was used.

  Returns:
    Mean and maximum over the batch by metric name, in versions.
  """
  if versions is None:
    return {}
  return {
    "policy_age_versions_mean": newest - float(versions.mean()),
    "policy_age_versions_max": float(newest - versions.min()),
  }
