"""Failures: one line, with the error or the signal."""

import pytest

from launch import failures

TRACEBACK = """\
I1234 something was said
Traceback (most recent call last):
  File "a.py", line 3, in f
    raise ValueError("x")
ValueError: x is 3
"""


@pytest.fixture
def log(tmp_path):
  return tmp_path / "log"


def test_an_error_is_named(log):
  log.write_text(TRACEBACK)
  line = failures.explain("worker/1", 1, log, start=0)
  assert line == f"node worker/1 failed: ValueError: x is 3 (log: {log})"


def test_only_the_newest_life_counts(log):
  log.write_text(TRACEBACK + "came up again\n")
  line = failures.explain("worker/1", -9, log, start=len(TRACEBACK))
  assert line == f"node worker/1 was ended by SIGKILL (log: {log})"


def test_an_exit_without_a_word(log):
  log.write_text("")
  line = failures.explain("replay/0", 3, log, start=0)
  assert line == f"node replay/0 ended with exit status 3 (log: {log})"
