"""Runs pytest as the main program of a Bazel test.

Bazel takes a file as a test's program; pytest is a module. Its exit status
and arguments are passed on.
"""

import sys

import pytest

if __name__ == "__main__":
  sys.exit(pytest.main(sys.argv[1:]))
