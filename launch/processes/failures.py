"""Failures: explains why a node's process failed."""

import dataclasses
import pathlib
import signal
import sys
import traceback

from slipway.environments import user_code

# Prefix of the line before the error that ended a node, in its log.
_MARK = "This node failed: "


@dataclasses.dataclass(frozen=True)
class Failure:
  """A failure of a node's process.

  Attributes:
    line: one line with the node, the cause and the path of the log.
    traceback: the error with its traceback; '': there is none.
  """

  line: str
  traceback: str


class NodeFailedError(RuntimeError):
  """Raised if a node has used up its restart budget.

  Attributes:
    failure: the node's first failure.
  """

  def __init__(self, failure: Failure):
    """Makes an error with the failure's line as its message."""
    super().__init__(failure.line)
    self.failure = failure


def print_error(error: BaseException) -> None:
  """Prints the error that ends this node, in the format of `explain_exit`."""
  if isinstance(error, user_code.UserCodeError):
    line, text = error.line, error.traceback or f"{error.line}\n"
  else:
    *_, last = traceback.format_exception_only(error)
    line = (last.splitlines() or [""])[0]
    text = "".join(traceback.format_exception(error))
  sys.stderr.write(f"{_MARK}{line}\n{text}")


def print_traceback(failure: Failure) -> None:
  """Prints a failure's traceback, unless its line contains it."""
  if failure.traceback.strip() not in failure.line:
    sys.stderr.write(failure.traceback)


def explain_exit(
  name: str, exit_status: int, log: pathlib.Path, start: int
) -> Failure:
  """Returns the failure that ended a node's process.

  Args:
    name: the node's name.
    exit_status: exit status of the process; negative: number of a signal.
    log: path of the node's log.
    start: byte of the log at which the output of this process begins.
  """
  output = ""
  if log.exists():  # missing if the disk was full
    with open(log, errors="replace") as file:
      file.seek(start)
      output = "\n" + file.read()
  # The first mark, because an error's text may quote another node's error.
  _, mark, error = output.partition("\n" + _MARK)
  cause, _, error_traceback = error.partition("\n")
  if mark:
    return Failure(f"node {name} failed: {cause} (log: {log})", error_traceback)
  if exit_status < 0:
    how = f"was ended by {name_signal(-exit_status)}"
  else:
    how = f"ended with exit status {exit_status}"
  if not exit_status:
    how += " too early, as if a thread of user code called os._exit"
  return Failure(f"node {name} {how} (log: {log})", "")


def name_signal(number: int) -> str:
  """Returns a signal's name, such as 'SIGKILL' or 'signal 40'."""
  try:
    return signal.Signals(number).name
  except ValueError:
    return f"signal {number}"
