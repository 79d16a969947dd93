"""Environments of the Behaviour Suite, which record what its scores need."""
# pyright: reportMissingImports=false

import bsuite
from shimmy import bsuite_compatibility


class RecordedEnvironment(bsuite_compatibility.BSuiteCompatibilityV0):
  """An environment of the Behaviour Suite, as a gymnasium environment.

  It writes a row to a CSV file at the end of some episodes, at logarithmic
  distances. The file is written when the first episode ends, so environments
  that are never stepped write none.
  """

  def __init__(self, bsuite_id: str, folder: str):
    """Makes the environment.

    Args:
      bsuite_id: experiment and setting, such as 'catch/0'.
      folder: folder of the CSV file; the file of an earlier run is replaced.
    """
    super().__init__(
      bsuite.load_and_record_to_csv(bsuite_id, folder, overwrite=True)
    )
