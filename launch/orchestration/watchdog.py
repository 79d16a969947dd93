"""The watchdog: notices that nothing moves, and says what would free it."""

import time
import typing
from collections.abc import Mapping, Sequence

import ml_collections

from configs import limiter as limiter_lib

# Nothing moves while all of these stay as they are.
_MOVING = ("env_steps", "trainer_steps", "inserted", "sampled")
_TABLE = "table 'transitions'"
_COUNTS = {"replay_size": "size", "inserted": "inserted", "sampled": "sampled"}


class Watchdog:
  """Watches a run's counts.

  watchdog = Watchdog(config)
  watchdog.look(status, working=True, now_s=time.monotonic())
  watchdog.stalled_s  # None, or the seconds in which nothing moved
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Has seen nothing yet.

    Args:
      config: the whole config; it may change while the run goes on.
    """
    self._config = config
    self._limiter = limiter_lib.Limiter.of(config)
    self._seen: tuple[typing.Any, ...] | None = None
    self._moved_at_s: float | None = None
    self.stalled_s: float | None = None

  def look(
    self, status: Mapping[str, typing.Any], working: bool, now_s: float
  ) -> bool:
    """Takes the counts of now; returns whether a stall has just been noticed.

    Args:
      status: of the run.
      working: whether anything should move: the run is not paused, and is not
        about to end.
      now_s: seconds of a clock that never goes back.
    """
    seen = tuple(status.get(name) for name in _MOVING)
    if not working or seen != self._seen or self._moved_at_s is None:
      self._seen, self._moved_at_s = seen, now_s
    still_s = now_s - self._moved_at_s
    noticed = self.stalled_s is None
    stalled = still_s > self._config.watchdog.period_s
    self.stalled_s = still_s if stalled else None
    return stalled and noticed

  def say(
    self,
    status: Mapping[str, typing.Any],
    silent: Sequence[str],
    waiting: str | None,
  ) -> str:
    """Who waits, on which table, for what, since when, and what would free it.

    Args:
      status: of the run, which has stalled.
      silent: nodes that were up and report no more: 'worker 1'.
      waiting: who waits for other things than the limiter, in a sentence.
    """
    stalled_s = self.stalled_s or 0.0
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - stalled_s))
    table, counts = _standing(self._limiter, status)
    cause = (
      _absent(status, silent)
      or waiting
      or explain(self._limiter, table, counts, self._held_back())
    )
    return (
      f"nothing moves since {since} ({stalled_s:,.0f} s): {cause}; "
      f"{_count(self._limiter, counts)}"
    )

  def _held_back(self) -> str:
    """That the workers are slow because they are asked to be, if they are."""
    topology = self._config.topology
    steps_per_s = self._config.rates.environment_steps_per_s
    if not steps_per_s:
      return ""
    at_once = topology.workers * topology.environments_per_worker
    period_s = at_once / steps_per_s
    if period_s <= self._config.watchdog.period_s:
      return ""
    return (
      f", which rates.environment_steps_per_s={steps_per_s:g} allows them "
      f"every {period_s:,.0f} s: raise it"
    )


def _standing(
  limiter: limiter_lib.Limiter, status: Mapping[str, typing.Any]
) -> tuple[str, Mapping[str, typing.Any]]:
  """The table that is to be told of, by name, and its counts.

  Of shards it is the one that holds workers most; if none does, the one that
  is nearest to a sample.
  """
  shards = status.get("replay_shards")
  if not shards:
    return _TABLE, status
  tables = [
    (
      f"{_TABLE} of shard {shard}",
      {name: counts[key] for name, key in _COUNTS.items()},
    )
    for shard, counts in shards.items()
  ]

  def urgency(table: tuple[str, Mapping[str, int]]) -> tuple[int, int]:
    counts = table[1].values()
    return limiter.samples_missing(*counts), -limiter.inserts_missing(*counts)

  return max(tables, key=urgency)


def explain(
  limiter: limiter_lib.Limiter,
  table: str,
  status: Mapping[str, typing.Any],
  held_back: str = "",
) -> str:
  """Whom the limiter of the transitions holds, and what would free it.

  Args:
    limiter: of the table.
    table: its name.
    status: of the run, or its counts of this table.
    held_back: what keeps workers from writing, as the end of a sentence.
  """
  counts = (status["replay_size"], status["inserted"], status["sampled"])
  inserts = limiter.inserts_missing(*counts)
  samples = limiter.samples_missing(*counts)
  if samples:
    return (
      f"workers wait to insert into {table}: the trainer must sample "
      f"{_items(samples)} first"
    )
  if inserts:
    first = " before its first sample" if not status["sampled"] else ""
    return (
      f"the trainer waits for {_items(inserts)} in {table}{first}: workers "
      f"must write{held_back}"
    )
  return (
    f"the limiter of {table} holds nobody: a node hangs, and its log may say "
    "at what"
  )


def _absent(
  status: Mapping[str, typing.Any], silent: Sequence[str]
) -> str | None:
  missing = [
    f"{role} {up} of {expected} up"
    for role, (up, expected) in status["nodes"].items()
    if up < expected
  ]
  if missing:
    return f"{', '.join(missing)}: the logs say why"
  if silent:
    return f"no report from {', '.join(silent)}: the logs may say why"
  return None


def _count(
  limiter: limiter_lib.Limiter, status: Mapping[str, typing.Any]
) -> str:
  size, inserted, sampled = (
    status["replay_size"],
    status["inserted"],
    status["sampled"],
  )
  items = f"{size:,} items of at least {limiter.min_size:,}"
  if not limiter.bounded:
    return f"{inserted:,} inserted, {sampled:,} sampled; {items}"
  return (
    f"{inserted:,} inserted x {limiter.samples_per_insert:g} - {sampled:,} "
    f"sampled = {limiter.difference(inserted, sampled):,.10g} in "
    f"{limiter.min_diff:,.10g} to {limiter.max_diff:,.10g}; {items}"
  )


def _items(count: int) -> str:
  return f"{count:,} more {'item' if count == 1 else 'items'}"
