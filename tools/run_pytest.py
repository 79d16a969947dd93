"""Runs pytest as the main program of a Bazel test.

Bazel requires a file as a test's main program, but pytest is a module. This
program passes its arguments to pytest, and exits with pytest's status.
"""

import sys

import pytest

if __name__ == "__main__":
  sys.exit(pytest.main(sys.argv[1:]))
