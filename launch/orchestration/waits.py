"""Waits: who has waited for what, and since when, in words."""

import time
import typing
from collections.abc import Sequence

# What nodes wait for, and whose fault it is.
TABLE = "the table to take items"
TRANSITIONS = "transitions"
LIMITER = (TABLE, TRANSITIONS)  # of the table decides about both
_CAUSES = {
  TABLE: ": the trainer is behind",
  TRANSITIONS: ": the workers are behind",
}
_PLURALS = {"proxy": "proxies", "worker": "workers"}


class Wait(typing.NamedTuple):
  """That one node waits.

  Attributes:
    reason: what it waits for, such as `TABLE`.
    waited_s: seconds since it began to.
  """

  reason: str
  waited_s: float


def server(address: str) -> str:
  """The reason of who waits for a replay server that is gone or hangs."""
  return f"the replay server at {address}, which does not answer"


def say(
  role: str, expected: int, waits: Sequence[Wait], now_s: float
) -> str | None:
  """What nodes of a role wait for, those that have waited longest first.

  Args:
    role: of the nodes that wait.
    expected: how many nodes of the role there are.
    waits: one for each node that waits.
    now_s: unix seconds.

  Returns:
    As in "2 of 3 workers wait for the table to take items, since 12:03:11
    (8 s): the trainer is behind"; None: nobody waits.
  """
  by_reason: dict[str, list[float]] = {}
  for wait in sorted(waits, key=lambda wait: wait.waited_s, reverse=True):
    by_reason.setdefault(wait.reason, []).append(wait.waited_s)
  sentences = []
  for reason, waited_s in by_reason.items():
    who = (
      f"{len(waited_s)} of {expected} {_PLURALS.get(role, role)} wait"
      if expected > 1
      else f"the {role} waits"
    )
    longest_s = waited_s[0]
    since = time.strftime("%H:%M:%S", time.localtime(now_s - longest_s))
    sentences.append(
      f"{who} for {reason}, since {since} ({longest_s:,.0f} s)"
      f"{_CAUSES.get(reason, '')}"
    )
  return "; ".join(sentences) or None
