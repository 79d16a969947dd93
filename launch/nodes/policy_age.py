"""Policy age: by how much what is learned from is older than what is learned.

A version comes every `variables.publish_period` trainer steps, or with each
call of the update loop where that is longer: an age times that many is an age
in trainer steps.
"""

import numpy as np


def metrics(versions: np.ndarray, newest: int) -> dict[str, float]:
  """The ages of a batch's transitions.

  Args:
    versions: int64 [B], of the variables that chose their first actions.
    newest: the last version that was published before the batch was used.

  Returns:
    Mean and maximum over the batch by metric name, in versions.
  """
  return {
    "policy_age_versions_mean": newest - float(versions.mean()),
    "policy_age_versions_max": float(newest - versions.min()),
  }
