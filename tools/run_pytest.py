"""Runs pytest as the main program of a Bazel test.

Bazel requires a file as a test's main program, but pytest is a module. This
program passes its arguments to pytest, and exits with pytest's status; with 0,
if all tests of the file have a marker that is not run by default.
"""

import sys

import pytest

if __name__ == "__main__":
  status = pytest.main(sys.argv[1:])
  sys.exit(0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else status)
