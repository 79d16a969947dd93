"""Failures: why a node's process has failed, and whether it is restarted."""

import collections
import dataclasses
import pathlib
import signal
import sys
import traceback

from slipway.environments import user_code

# Seconds between a failure and the first restart. The delay doubles with each
# further restart within the period.
_FIRST_DELAY_S = 0.1
# Longest delay in seconds between a failure and a restart.
_LONGEST_DELAY_S = 10.0


@dataclasses.dataclass(frozen=True)
class Failure:
  """Description of the failure of a node's process, for the user.

  Attributes:
    line: one line with the node, the cause and the path of the log.
    traceback: text of the error with its traceback, or empty if there is none.
  """

  line: str
  traceback: str = ""


class NodeFailedError(RuntimeError):
  """Raised if the whole run fails because of a failed node.

  Attributes:
    failure: the failure that ended the run.
  """

  def __init__(self, failure: Failure):
    """Makes an error with the failure's line as its message."""
    super().__init__(failure.line)
    self.failure = failure


class StateLostError(NodeFailedError):
  """Raised if a process has died whose state other nodes have no copy of.

  It is the trainer, a replay server, or the fork server, without which no node
  can be started. The run continues from its newest snapshot.
  """


class RestartBudget:
  """Limits how often something that fails is restarted within a period.

  What fails rarely is always restarted. What fails more often than its budget
  allows has a fault that a restart does not repair.
  """

  def __init__(self, budget: int, period_s: float):
    """Starts with an unused budget.

    Args:
      budget: number of restarts allowed within a period; 0: none at all.
      period_s: seconds after which a failure no longer counts.
    """
    self._budget, self._period_s = budget, period_s
    # Pairs of a failure and its monotonic seconds, oldest first.
    self._counted: collections.deque[tuple[Failure, float]] = (
      collections.deque()
    )

  def record(self, failure: Failure, now_s: float) -> float | None:
    """Records a failure; returns the seconds to wait before the restart.

    Returns None if the budget is used up.
    """
    while self._counted and now_s - self._counted[0][1] > self._period_s:
      self._counted.popleft()
    before = len(self._counted)
    self._counted.append((failure, now_s))
    if before >= self._budget:
      return None
    # The exponent is bounded, because a float can't hold powers above 2^1023.
    return min(_FIRST_DELAY_S * 2.0 ** min(before, 100), _LONGEST_DELAY_S)

  @property
  def first(self) -> Failure:
    """The oldest failure that counts, preferably one with a traceback."""
    counted = [failure for failure, _ in self._counted]
    return next((x for x in counted if x.traceback), counted[0])


def to_text(error: BaseException) -> str:
  """Returns one line about an error, and its traceback in further lines."""
  if isinstance(error, user_code.UserCodeError):
    line, text = error.line, error.traceback or f"{error.line}\n"
  else:
    # The last text is the error itself; a syntax error has its source before.
    *_, message = traceback.format_exception_only(error)
    line = (message.splitlines() or [""])[0]
    text = "".join(traceback.format_exception(error))
  return "\n".join(map(user_code.make_printable, (line, text)))


def print_traceback(failure: Failure) -> None:
  """Prints a failure's traceback to stderr, unless its line has all of it."""
  if failure.traceback.strip() not in failure.line:
    sys.stderr.write(failure.traceback)


def explain_exit(
  name: str, exit_status: int, error: str, log: pathlib.Path
) -> Failure:
  """Returns a description of why a node's process has ended.

  Args:
    name: the node's name, such as 'worker/0'.
    exit_status: exit status of the process; a negative value is the negated
      number of the signal that ended the process.
    error: the error that has ended it, as `to_text` returns; empty for none.
    log: path of the node's log.
  """
  if error:
    cause, _, error_traceback = error.partition("\n")
    return Failure(f"node {name} failed: {cause} (log: {log})", error_traceback)
  if exit_status < 0:
    how = f"was ended by {name_signal(-exit_status)}"
  else:
    how = f"ended with exit status {exit_status}"
  if not exit_status:
    how += " too early, as if a thread of user code called os._exit"
  return Failure(f"node {name} {how} (log: {log})")


def name_signal(number: int) -> str:
  """Returns a signal's name, such as 'SIGKILL' or 'signal 40'."""
  try:
    return signal.Signals(number).name
  except ValueError:
    return f"signal {number}"
