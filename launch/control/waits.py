"""Waits: describes for the user why nodes wait, and since when."""

import time
import typing
from collections.abc import Sequence

# Reasons of waits, as texts that follow the words "waits for".
TABLE = "the table to take items"  # of a worker
TRANSITIONS = "transitions"  # of the trainer
RECORDED = "recorded transitions"  # of the trainer without workers
LAST_SNAPSHOT = "the last snapshot to be saved"  # of the trainer
EPISODES = "episodes to end"  # of the evaluator
EVALUATION = "an evaluation's episodes to end"  # of the trainer in mode single
# What would end a wait as the end of its sentence, by reason.
_REMEDIES = {
  EPISODES: ": environment.time_limit limits them",
  EVALUATION: ": environment.time_limit limits them",
  TABLE: ": the trainer must sample",
  TRANSITIONS: ": workers must write",
}
# Display names of several nodes, by role; other roles use the role itself.
_PLURALS = {
  "proxy": "proxies",
  "worker": "workers",
  "external": "external processes",
}
# Display names of one node, by role; other roles use the role itself.
_SINGULARS = {"external": "external process"}


class Wait(typing.NamedTuple):
  """The reason and the duration of one node's wait.

  Attributes:
    reason: the reason of the wait, such as `TABLE`.
    waited_s: seconds since the wait began.
  """

  reason: str
  waited_s: float


def make_server_reason(address: str | None) -> str:
  """Returns the reason of a wait for a replay server that is down.

  Args:
    address: address of the server, or None if it is not known.
  """
  return f"the replay server at {address}, which is down"


def since(reason: str, since_s: float | None) -> Wait | None:
  """Returns a wait for a reason since some time, or None without one.

  Args:
    reason: the reason of the wait, such as `TABLE`.
    since_s: monotonic seconds at which the wait began, or None.
  """
  return Wait(reason, time.monotonic() - since_s) if since_s else None


def describe(
  role: str, expected: int, waits: Sequence[Wait], now_s: float
) -> str | None:
  """Returns a text about the waits of a role's nodes, the longest wait first.

  Args:
    expected: number of nodes of the role, waiting or not.
    now_s: current unix seconds.

  Returns:
    A text such as "2 of 3 workers wait for the table to take items, since
    12:03:11 (8 s): the trainer must sample", or None if no node waits.
  """
  by_reason: dict[str, list[float]] = {}
  for wait in sorted(waits, key=lambda wait: wait.waited_s, reverse=True):
    by_reason.setdefault(wait.reason, []).append(wait.waited_s)
  sentences = []
  for reason_, waited_s in by_reason.items():
    subject = (
      f"{len(waited_s)} of {expected} {_PLURALS.get(role, role)} wait"
      if expected > 1
      else f"the {_SINGULARS.get(role, role)} waits"
    )
    longest_s = waited_s[0]
    since = time.strftime("%H:%M:%S", time.localtime(now_s - longest_s))
    sentences.append(
      f"{subject} for {reason_}, since {since} ({longest_s:,.0f} s)"
      f"{_REMEDIES.get(reason_, '')}"
    )
  return "; ".join(sentences) or None
