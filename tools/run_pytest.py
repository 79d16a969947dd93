"""Runs pytest as the main program of a Bazel test.

Bazel requires a file as a test's main program, but pytest is a module. Passes
on the arguments and pytest's exit status.
"""

import sys

import pytest

if __name__ == "__main__":
  sys.exit(pytest.main(sys.argv[1:]))
