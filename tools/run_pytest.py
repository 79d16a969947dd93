"""Runs pytest as the main program of a Bazel test.

Bazel requires a file as a test's main program, but pytest is a module. This
program passes its arguments to pytest, and exits with pytest's status; with 0,
if the file has tests, and all of them have a marker that is not run by default.
"""

import sys

import pytest


class _Deselection:
  """Plugin that records whether a marker has excluded any test."""

  any = False

  def pytest_deselected(self, items) -> None:
    """Is called by pytest with excluded tests."""
    self.any = self.any or bool(items)


if __name__ == "__main__":
  deselection = _Deselection()
  status = pytest.main(sys.argv[1:], plugins=[deselection])
  is_excluded = status == pytest.ExitCode.NO_TESTS_COLLECTED and deselection.any
  sys.exit(0 if is_excluded else status)
