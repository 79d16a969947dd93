"""Failures: finds out why a node's process failed, from its log and status."""

import dataclasses
import pathlib
import signal
import sys
import traceback

from slipway.environments import user_code

# Beginning of the log line with the error that ended a node's process.
_MARK = "This node failed: "


@dataclasses.dataclass(frozen=True)
class Failure:
  """Description of the failure of a node's process, for the user.

  Attributes:
    line: one line with the node, the cause and the path of the log.
    traceback: text of the error with its traceback, or empty if there is none.
  """

  line: str
  traceback: str


class NodeFailedError(RuntimeError):
  """Raised if the whole run fails because of a failed node.

  Usually the node has used up its restart budget.

  Attributes:
    failure: the failure that ended the run.
  """

  def __init__(self, failure: Failure):
    """Makes an error with the failure's line as its message.

    Args:
      failure: the failure that ended the run.
    """
    super().__init__(failure.line)
    self.failure = failure


class StateLostError(NodeFailedError):
  """Raised if a process has died whose state other nodes have no copy of.

  It is the trainer, a replay server, or the fork server, without which no node
  can be started. The run continues from its newest snapshot.
  """


def print_error(error: BaseException) -> None:
  """Prints the error that ends this node's process to its log.

  `explain_exit` later finds the error in the log.

  Args:
    error: the error, of user code or of Slipway.
  """
  if isinstance(error, user_code.UserCodeError):
    line, text = error.line, error.traceback or f"{error.line}\n"
  else:
    # The last text is the error itself; a syntax error has its source before.
    *_, message = traceback.format_exception_only(error)
    line = (message.splitlines() or [""])[0]
    text = "".join(traceback.format_exception(error))
  line, text = map(user_code.make_printable, (line, text))
  sys.stderr.write(f"{_MARK}{line}\n{text}")


def print_traceback(failure: Failure) -> None:
  """Prints a failure's traceback to stderr, unless its line contains all of it.

  Args:
    failure: the failure of a node's process.
  """
  if failure.traceback.strip() not in failure.line:
    sys.stderr.write(failure.traceback)


def explain_exit(
  name: str, exit_status: int, log: pathlib.Path, start: int
) -> Failure:
  """Returns a description of why a node's process has ended.

  The cause is the error that `print_error` has printed to the log. If there is
  none, the cause is the exit status.

  Args:
    name: the node's name, such as 'worker/0'.
    exit_status: exit status of the process; a negative value is the negated
      number of the signal that ended the process.
    log: path of the node's log.
    start: byte of the log at which the output of this process begins.
  """
  output = ""
  if log.exists():  # missing if the disk was full
    with open(log, errors="replace") as file:
      file.seek(start)
      output = "\n" + file.read()
  # The log is split at the first mark, because the error's text may quote
  # another node's error, with a mark of its own.
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
