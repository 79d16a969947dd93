"""Settings of the fuzz tests: the number of examples and their deadline.

By default, each test run uses the same examples. With FUZZ_EXAMPLES=N, as in
`make fuzz`, it uses N new ones.
"""

import datetime
import os

import hypothesis

IS_LONG = "FUZZ_EXAMPLES" in os.environ


def settings(
  examples: int, deadline: datetime.timedelta | None
) -> hypothesis.settings:
  """Returns the settings of a fuzz test.

  Args:
    examples: number of examples, unless FUZZ_EXAMPLES gives another number.
    deadline: longest duration of one example; None: no limit.
  """
  return hypothesis.settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", examples)),
    deadline=deadline,
    database=None,
    derandomize=not IS_LONG,
    suppress_health_check=list(hypothesis.HealthCheck),
  )
