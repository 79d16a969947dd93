"""Failures: what became of a process, in one line, and its error whole."""

import dataclasses
import pathlib
import signal
import sys
import traceback

from slipway.environments import user_code

# Begins the line after which a log has the error that ended its node.
_MARK = "This node failed: "


@dataclasses.dataclass(frozen=True)
class Failure:
  """One end of a node's process that should not have been.

  Attributes:
    line: which node failed, why, and where its log is.
    whole: the error with its traceback, as the log has it; '' if there is none.
  """

  line: str
  whole: str


class NodeFailedError(RuntimeError):
  """A node failed for good; in one line.

  Attributes:
    failure: its first one.
  """

  def __init__(self, failure: Failure):
    """Says the failure's line."""
    super().__init__(failure.line)
    self.failure = failure


def tell(error: BaseException) -> None:
  """Prints the error that ends this node, as `explain` will look for it."""
  if isinstance(error, user_code.UserCodeError):
    line, whole = error.line, error.traceback or f"{error.line}\n"
  else:
    *_, last = traceback.format_exception_only(error)
    line = (last.splitlines() or [""])[0]
    whole = "".join(traceback.format_exception(error))
  sys.stderr.write(f"{_MARK}{line}\n{whole}")


def print_whole(failure: Failure) -> None:
  """Prints what a failure's line does not have yet."""
  if failure.whole.strip() not in failure.line:
    sys.stderr.write(failure.whole)


def explain(
  name: str, exit_status: int, log: pathlib.Path, start: int
) -> Failure:
  """What ended a node.

  Args:
    name: of the node.
    exit_status: of its process; negative: the signal that ended it.
    log: file that has what it printed.
    start: byte of the log where this life of the node began.
  """
  said = ""
  if log.exists():  # it does not where the disk was full
    with open(log, errors="replace") as file:
      file.seek(start)
      said = "\n" + file.read()
  # The first one: an error's own text may hold another node's.
  _, mark, told = said.partition("\n" + _MARK)
  why, _, whole = told.partition("\n")
  if mark:
    return Failure(f"node {name} failed: {why} (log: {log})", whole)
  if exit_status < 0:
    how = f"was ended by {name_signal(-exit_status)}"
  else:
    how = f"ended with exit status {exit_status}"
  if not exit_status:
    how += " before its time, as if a thread of user code called os._exit"
  return Failure(f"node {name} {how} (log: {log})", "")


def name_signal(number: int) -> str:
  """Returns 'SIGKILL'; for a real-time signal, 'signal 40'."""
  try:
    return signal.Signals(number).name
  except ValueError:
    return f"signal {number}"
