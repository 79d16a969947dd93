"""Tests of failures: lines, tracebacks, and the budget of restarts."""

import pathlib

import pytest

from slipway.environments import user_code
from slipway.launch.processes import failures

LOG = pathlib.Path("/logs/worker/1")


def text_of(statement):
  """Returns the text of the error that a statement raises."""
  try:
    exec(statement)
  except BaseException as error:
    return failures.to_text(error)
  raise AssertionError(statement)


def fail(cause):
  raise user_code.UserCodeError("Foo: boom", cause)


# failing statement, error that the line names, end of the traceback
@pytest.mark.parametrize(
  ("statement", "named", "end"),
  [
    ("raise ValueError('x is 3')", "ValueError: x is 3", "x is 3\n"),
    ("raise ValueError('a\\nb\\n\\nc')", "ValueError: a", "a\nb\n\nc\n"),
    ("raise ValueError", "ValueError", "ValueError\n"),
    ("1 / 0", "ZeroDivisionError: division by zero", "division by zero\n"),
    ("raise KeyError(3) from OSError(2, 'gone')", "KeyError: 3", "Error: 3\n"),
    ("raise SystemExit(2)", "SystemExit: 2", "SystemExit: 2\n"),
    ("fail(ValueError('boom'))", "Foo: boom", "ValueError: boom\n"),
    ("fail(None)", "Foo: boom", "Foo: boom\n"),
  ],
)
def test_an_error_is_named_and_has_its_traceback(statement, named, end):
  failure = failures.explain_exit("worker/1", 1, text_of(statement), LOG)
  assert failure.line == f"node worker/1 failed: {named} (log: {LOG})"
  assert failure.traceback.endswith(end)
  if "fail(" not in statement:
    assert "Traceback (most recent call last):\n" in failure.traceback


@pytest.mark.parametrize(
  ("status", "how"),
  [
    (3, "ended with exit status 3"),
    (-9, "was ended by SIGKILL"),
    (-40, "was ended by signal 40"),
    (0, "os._exit"),
  ],
)
def test_an_exit_without_an_error(status, how):
  failure = failures.explain_exit("worker/1", status, "", LOG)
  assert failure.line.startswith("node worker/1 ")
  assert how in failure.line and str(LOG) in failure.line
  assert failure.traceback == ""


# budget, seconds of the failures, delays of the restarts
@pytest.mark.parametrize(
  ("budget", "failed_at_s", "delays_s"),
  [
    (4, [0.0, 1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.4, 0.8, None]),
    (2, [0.0, 50.0, 100.5, 300.0], [0.1, 0.2, 0.2, 0.1]),  # forgiven in 100 s
    (0, [0.0], [None]),
    (9, [0.0] * 9, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]),
    (2_000, [0.0] * 2_000, None),
  ],
)
def test_a_restart_budget(budget, failed_at_s, delays_s):
  restarts = failures.RestartBudget(budget, period_s=100.0)
  failure = failures.Failure("a line")
  got = [restarts.record(failure, now_s) for now_s in failed_at_s]
  assert got == (pytest.approx(delays_s) if delays_s else sorted(got))


def test_the_first_failure_with_a_traceback_is_reported():
  restarts = failures.RestartBudget(5, 100.0)
  for text in ("", "a", "b"):
    restarts.record(failures.Failure("a line", text), 0.0)
    assert restarts.first.traceback == ("a" if text else "")
  restarts.record(failures.Failure("a line", "c"), 200.0)
  assert restarts.first.traceback == "c"
