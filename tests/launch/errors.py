"""Checks the errors that users see."""

import contextlib

import pytest


@contextlib.contextmanager
def one_line(*parts, error=ValueError):
  """Expects an error of one line that contains all parts."""
  with pytest.raises(error) as caught:
    yield
  line = str(caught.value)
  assert "\n" not in line
  for part in parts:
    assert str(part) in line


def check_printed(capsys, *parts):
  """Checks that a command has printed one line, which contains all parts."""
  printed = capsys.readouterr()
  assert printed.out == ""
  assert printed.err.count("\n") == 1
  for part in parts:
    assert str(part) in printed.err
