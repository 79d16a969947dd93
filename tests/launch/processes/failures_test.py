"""Tests of failures: one line with the error or signal, and the traceback."""

import os
import subprocess
import sys

import pytest

from slipway.launch.processes import failures

# A process that fails as a node does.
_NODE = """
import sys
from slipway.launch.processes import failures
try:
  {}
except BaseException as error:
  failures.print_error(error)
"""


def fail(log, statement):
  """Runs a process that fails, and appends its output to a log."""
  with open(log, "a") as file:
    subprocess.run(
      [sys.executable, "-c", _NODE.format(statement)],
      stderr=file,
      check=True,
      env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture
def log(tmp_path):
  path = tmp_path / "log"
  path.write_text("I1234 something was said\n")
  return path


# failing statement, error that the line names, end of the traceback
ERRORS = [
  ("raise ValueError('x is 3')", "ValueError: x is 3", "ValueError: x is 3\n"),
  ("raise ValueError('a\\nb\\n\\nc')", "ValueError: a",
   "ValueError: a\nb\n\nc\n"),
  ("raise ValueError", "ValueError", "ValueError\n"),
  ("1 / 0", "ZeroDivisionError: division by zero", "division by zero\n"),
  ("raise KeyError(3) from OSError(2, 'gone')", "KeyError: 3", "Error: 3\n"),
  ("sys.exit(2)", "SystemExit: 2", "SystemExit: 2\n"),
  ("raise failures.NodeFailedError(failures.Failure('inner', ''))",
   "slipway.launch.processes.failures.NodeFailedError: inner",
   "Error: inner\n"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "named", "end"), ERRORS)
def test_an_error_is_named_and_has_its_traceback(log, statement, named, end):
  fail(log, statement)
  failure = failures.explain_exit("worker/1", 1, log, start=0)
  assert failure.line == f"node worker/1 failed: {named} (log: {log})"
  traceback = failure.traceback
  assert "Traceback (most recent call last):\n" in traceback
  assert traceback.endswith(end)
  assert log.read_text().endswith(traceback)


def test_a_cause_is_part_of_the_traceback(log):
  fail(log, "raise KeyError(3) from OSError(2, 'gone')")
  traceback = failures.explain_exit("worker/1", 1, log, start=0).traceback
  assert traceback.startswith("FileNotFoundError: [Errno 2] gone\n")
  assert traceback.count("Traceback (most recent call last):\n") == 1


def test_an_error_that_quotes_another_nodes_error(log, tmp_path):
  fail(tmp_path / "other", "1 / 0")
  quoted = (tmp_path / "other").read_text()
  fail(log, f"raise ValueError({'it said:' + chr(10) + quoted!r})")
  failure = failures.explain_exit("worker/1", 1, log, start=0)
  assert failure.line == (
    f"node worker/1 failed: ValueError: it said: (log: {log})"
  )
  assert failure.traceback.startswith("Traceback (most recent call last):\n")
  assert failure.traceback.endswith(f"\nValueError: it said:\n{quoted}\n")


def test_only_the_newest_incarnation_counts(log):
  fail(log, "1 / 0")
  start = log.stat().st_size
  with open(log, "a") as file:
    file.write("came up again\n")
  failure = failures.explain_exit("worker/1", -9, log, start)
  assert failure.line == f"node worker/1 was ended by SIGKILL (log: {log})"
  assert failure.traceback == ""


def test_an_error_of_user_code_keeps_its_own_frames(log):
  fail(
    log,
    "from slipway.environments import user_code\n"
    "  raise user_code.UserCodeError('Foo: boom', ValueError('boom'))",
  )
  failure = failures.explain_exit("worker/1", 1, log, start=0)
  assert failure.line == f"node worker/1 failed: Foo: boom (log: {log})"
  assert failure.traceback == "ValueError: boom\n"


def test_an_exit_status_0_before_the_end_is_a_failure(log):
  failure = failures.explain_exit("worker/1", 0, log, start=0)
  assert failure.line.startswith("node worker/1 ended with exit status 0")
  assert "os._exit" in failure.line


def test_an_exit_without_output(log):
  failure = failures.explain_exit("replay/0", 3, log, start=0)
  assert failure.line == f"node replay/0 ended with exit status 3 (log: {log})"
  assert failure.traceback == ""
