"""PollSchedule: how often a process polls the server for new variables."""

import time

# Seconds between two polls, at most, unless the shortest period is longer.
_LONGEST_S = 0.05
# Part of the time since the last version that passes between two polls. A poll
# takes 0.4 ms of CPU time, so a constant period of 2 ms, which rounds of 20 ms
# need, took a fifth of a core in rounds of 2 s.
_DELAY = 0.02


class PollSchedule:
  """Schedule of polls, which are rarer the older the last version is.

  A version arrives late by at most 2 % of the time since the last one, or by
  the shortest period.
  """

  def __init__(self, shortest_s: float):
    """Starts with the shortest period.

    Args:
      shortest_s: shortest period, in seconds.
    """
    self._shortest_s = shortest_s
    self._version_at_s = time.monotonic()

  def record_version(self) -> None:
    """Records that a new version has arrived now."""
    self._version_at_s = time.monotonic()

  @property
  def period_s(self) -> float:
    """Seconds until the next poll."""
    age_s = time.monotonic() - self._version_at_s
    return max(self._shortest_s, min(_DELAY * age_s, _LONGEST_S))
