"""The watchdog: notices that nothing moves, and explains what would free it."""

import time
from collections.abc import Sequence

import ml_collections

from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.runs import run_status
from slipway.replay.tables import limiter as limiter_lib

_TABLE = "table 'transitions'"
_QUEUE = "queue 'transitions'"


class Watchdog:
  """Watches a run's counts.

  watchdog = Watchdog(config, rates)
  watchdog.look(status, working=True, now_s=time.monotonic())
  watchdog.stalled_s  # None, or the seconds in which nothing moved
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    rates: rates_lib.Rates,
  ):
    """Starts without a status.

    Args:
      config: the whole config; it may change while the run goes on.
      rates: of the run.
    """
    self._config = config
    self._limiter, table = rates.limiter, rates.table
    self._batch_size = table.batch_size if table is not None else 0
    self._seen: tuple[int, ...] | None = None
    self._moved_at_s: float | None = None
    self.stalled_s: float | None = None

  def look(
    self, status: run_status.RunStatus, working: bool, now_s: float
  ) -> bool:
    """Takes the current counts; returns whether it has just noticed a stall.

    Args:
      status: of the run.
      working: whether anything should move: the run is not paused, and is not
        about to end.
      now_s: seconds of a clock that never goes back.
    """
    replay = status.replay or run_status.ReplayStatus()
    seen = (
      status.env_steps,
      status.trainer_steps,
      replay.inserted,
      replay.sampled,
    )
    if not working or seen != self._seen or self._moved_at_s is None:
      self._seen, self._moved_at_s = seen, now_s
    still_s = now_s - self._moved_at_s
    noticed = self.stalled_s is None
    stalled = still_s > self._config.watchdog.period_s
    self.stalled_s = still_s if stalled else None
    return stalled and noticed

  def explain(
    self,
    status: run_status.RunStatus,
    silent: Sequence[str],
    waiting: str | None,
  ) -> str:
    """Returns which side waits on which table, since when, and the remedy.

    Args:
      status: of the run, which has stalled.
      silent: nodes that were up and report no more: 'worker 1'.
      waiting: which nodes wait for other things than the limiter, in a
        sentence; None: no node does.
    """
    stalled_s = self.stalled_s or 0.0
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - stalled_s))
    text = f"nothing moves since {since} ({stalled_s:,.0f} s): "
    cause = _absent(status, silent) or waiting
    limiter, replay = self._limiter, status.replay
    if limiter is None or replay is None:
      return text + (
        cause or "the trainer reads no data: its log may explain the reason"
      )
    table, counts = _limiting_table(limiter, replay)
    collectors = [
      status.nodes.get(role, run_status.NodesStatus())
      for role in ("worker", "external")
    ]
    if "external" in status.nodes and not any(c.up for c in collectors):
      cause = cause or (
        "config.topology.workers=0 and no external process is connected: "
        "connect one with slipway.connect"
      )
    if cause is None and not any(c.expected for c in collectors):
      cause = "no worker writes and the trainer hangs: its log may say where"
    if cause is None and replay.consumed:
      cause = _explain_queue(limiter, table, counts, self._batch_size)
    if cause is None:
      cause = _explain_table(limiter, table, counts, self._limit_on_workers())
    return f"{text}{cause}; {_describe(limiter, counts, replay.consumed)}"

  def _limit_on_workers(self) -> str:
    """Returns that the config limits the workers' rate, if it does, or ''."""
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


def _limiting_table(
  limiter: limiter_lib.Limiter, replay: run_status.ReplayStatus
) -> tuple[str, run_status.TableCounts]:
  """Returns the name and the counts of the table that holds the run up.

  Of shards it is the one that blocks workers most; if none does, the one that
  is nearest to a sample.
  """
  name = _QUEUE if replay.consumed else _TABLE
  if not replay.shards:
    return name, run_status.TableCounts(
      replay.size, replay.inserted, replay.sampled
    )

  def urgency(shard: tuple[int, run_status.TableCounts]) -> tuple[int, int]:
    counts = (shard[1].size, shard[1].inserted, shard[1].sampled)
    return limiter.samples_missing(*counts), -limiter.inserts_missing(*counts)

  index, counts = max(replay.shards.items(), key=urgency)
  return f"{name} of shard {index}", counts


def _explain_table(
  limiter: limiter_lib.Limiter,
  table: str,
  counts: run_status.TableCounts,
  limit_on_workers: str,
) -> str:
  """Returns which side a table's limiter blocks, and the remedy."""
  numbers = (counts.size, counts.inserted, counts.sampled)
  if samples := limiter.samples_missing(*numbers):
    return (
      f"workers wait to insert into {table}: the trainer must sample "
      f"{_items(samples)} first"
    )
  if inserts := limiter.inserts_missing(*numbers):
    first = "" if counts.sampled else " before its first sample"
    return (
      f"the trainer waits for {_items(inserts)} in {table}{first}: workers "
      f"must write{limit_on_workers}"
    )
  return (
    f"the limiter of {table} blocks no node: a node hangs, and its log may "
    "say where"
  )


def _explain_queue(
  limiter: limiter_lib.Limiter,
  queue: str,
  counts: run_status.TableCounts,
  batch_size: int,
) -> str | None:
  """Returns which side a queue blocks, and the remedy; None: no side."""
  if limiter.samples_missing(counts.size, counts.inserted, counts.sampled):
    return (
      f"workers wait because {queue} is full: the trainer must consume items"
    )
  if counts.size < batch_size:
    return (
      f"the trainer waits for {_items(batch_size - counts.size)} in {queue}, "
      f"a batch of {batch_size:,}: workers must write"
    )
  return None


def _absent(status: run_status.RunStatus, silent: Sequence[str]) -> str | None:
  missing = [
    f"{role} {nodes.up} of {nodes.expected} up"
    for role, nodes in status.nodes.items()
    if nodes.up < nodes.expected
  ]
  if missing:
    return f"{', '.join(missing)}: the logs give the reason"
  if silent:
    return f"no report from {', '.join(silent)}: the logs may give the reason"
  return None


def _describe(
  limiter: limiter_lib.Limiter, counts: run_status.TableCounts, consumed: bool
) -> str:
  """Returns a table's counts, and its limiter's bounds."""
  if consumed:
    return f"{counts.size:,} items in the queue, {counts.sampled:,} consumed"
  items = f"{counts.size:,} items of at least {limiter.min_size:,}"
  if not limiter.bounded:
    return f"{counts.inserted:,} inserted, {counts.sampled:,} sampled; {items}"
  difference = limiter.difference(counts.inserted, counts.sampled)
  return (
    f"{counts.inserted:,} inserted x {limiter.samples_per_insert:g} - "
    f"{counts.sampled:,} sampled = {difference:,.10g} in "
    f"{limiter.min_diff:,.10g} to {limiter.max_diff:,.10g}; {items}"
  )


def _items(count: int) -> str:
  return f"{count:,} more {'item' if count == 1 else 'items'}"
