"""Fuzzing: how far the tests look that give parts of a run any content.

By default the same examples each time; with FUZZ_EXAMPLES=N, as in `make fuzz`,
N others.
"""

import datetime
import os

import hypothesis

IS_LONG = "FUZZ_EXAMPLES" in os.environ


def settings(
  examples: int, deadline: datetime.timedelta | None
) -> hypothesis.settings:
  """Returns the settings of a test.

  Args:
    examples: where FUZZ_EXAMPLES does not give another number.
    deadline: for one example; None: there is none.
  """
  return hypothesis.settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", examples)),
    deadline=deadline,
    database=None,
    derandomize=not IS_LONG,
    suppress_health_check=list(hypothesis.HealthCheck),
  )
