"""Watchdog: detects that a run has stalled, and explains the cause."""

import time
from collections.abc import Sequence

import ml_collections

from slipway.launch.control import rates as rates_lib
from slipway.launch.runs import run_status
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_status

_TABLE = "table 'transitions'"  # display name of a prioritized or uniform table
_QUEUE = "queue 'transitions'"  # display name of a queue


class Watchdog:
  """Detects a stall: a run whose steps, inserts and samples no longer grow.

  ```python
  watchdog = Watchdog(config, rates)
  watchdog.update(status, working=True, now_s=time.monotonic())
  watchdog.stalled_s  # 75.0, or None
  ```

  Attributes:
    stalled_s: seconds without progress, or None until they exceed
      `config.watchdog.period_s`.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    rates: rates_lib.Rates,
  ):
    """Starts without counts; the first `update` counts as progress.

    Args:
      config: the whole config, which may change during the run.
      rates: the run's schedule.
    """
    self._config = config
    self._limiter, table = rates.limiter, rates.table
    self._batch_size = table.batch_size if table is not None else 0
    self._last_counts: tuple[int, ...] | None = None
    self._progress_at_s: float | None = None  # monotonic
    self.stalled_s: float | None = None

  def update(
    self, status: run_status.RunStatus, working: bool, now_s: float
  ) -> bool:
    """Records a run's current counts; returns whether a stall has just begun.

    Args:
      status: the run's current status.
      working: whether the counts should grow; False while the run is paused or
        stopping.
      now_s: current monotonic seconds.
    """
    replay = status.replay or run_status.ReplayStatus()
    counts = (
      status.env_steps,
      status.trainer_steps,
      replay.inserted,
      replay.sampled,
    )
    progress_at_s = self._progress_at_s
    if not working or counts != self._last_counts or progress_at_s is None:
      self._last_counts, progress_at_s = counts, now_s
    self._progress_at_s = progress_at_s
    unchanged_s = now_s - progress_at_s
    had_stalled = self.stalled_s is not None
    has_stalled = unchanged_s > self._config.watchdog.period_s
    self.stalled_s = unchanged_s if has_stalled else None
    return has_stalled and not had_stalled

  def explain(
    self,
    status: run_status.RunStatus,
    silent: Sequence[str],
    waiting: str | None,
  ) -> str:
    """Returns one line for the user about the cause of a stall.

    The line has the duration, the side that is blocked, the table that blocks
    it, the remedy, and the table's counts.

    Args:
      status: status of the stalled run.
      silent: nodes that no longer report, such as 'worker 1'.
      waiting: sentence about nodes that wait for another reason than the rate
        limiter, or None if there are none.
    """
    stalled_s = self.stalled_s or 0.0
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - stalled_s))
    text = f"no progress since {since} ({stalled_s:,.0f} s): "
    cause = _explain_absence(status, silent) or waiting
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
    if cause is None and replay.is_queue:
      cause = _explain_queue(limiter, table, counts, self._batch_size)
    if cause is None:
      cause = _explain_table(limiter, table, counts, self._explain_rate_limit())
    return (
      f"{text}{cause}; {_describe_counts(limiter, counts, replay.is_queue)}"
    )

  def _explain_rate_limit(self) -> str:
    """Returns a clause about a rate limit that is too low, or an empty text.

    A limit is too low if it lets the workers step less than once per
    `config.watchdog.period_s`, which alone explains a stall.
    """
    topology = self._config.topology
    steps_per_s = self._config.rates.environment_steps_per_s
    if not steps_per_s:
      return ""
    steps_at_once = topology.workers * topology.environments_per_worker
    period_s = steps_at_once / steps_per_s
    if period_s <= self._config.watchdog.period_s:
      return ""
    return (
      f", which rates.environment_steps_per_s={steps_per_s:g} allows them "
      f"every {period_s:,.0f} s: raise it"
    )


def _limiting_table(
  limiter: limiter_lib.Limiter, replay: run_status.ReplayStatus
) -> tuple[str, table_status.TableStatus]:
  """Returns the display name and the counts of the table that blocks a run.

  Among several shards, the table that needs the most samples before it accepts
  an insert comes first; without one, the table that needs the fewest inserts.
  """
  name = _QUEUE if replay.is_queue else _TABLE
  if not replay.shards:
    return name, table_status.TableStatus(
      replay.size, replay.inserted, replay.sampled
    )

  def urgency(shard: tuple[int, table_status.TableStatus]) -> tuple[int, int]:
    """Returns a shard's missing samples, and its missing inserts negated."""
    _, table = shard
    return limiter.samples_missing(table), -limiter.inserts_missing(table)

  index, counts = max(replay.shards.items(), key=urgency)
  return f"{name} of shard {index}", counts


def _explain_table(
  limiter: limiter_lib.Limiter,
  table: str,
  counts: table_status.TableStatus,
  limit_on_workers: str,
) -> str:
  """Returns a text about the side that a table's limiter blocks."""
  if samples := limiter.samples_missing(counts):
    return (
      f"workers wait to insert into {table}: the trainer must sample "
      f"{_format_items(samples)} first"
    )
  if inserts := limiter.inserts_missing(counts):
    first = "" if counts.sampled else " before its first sample"
    return (
      f"the trainer waits for {_format_items(inserts)} in {table}{first}: "
      f"workers must write{limit_on_workers}"
    )
  return (
    f"the limiter of {table} blocks no node: a node hangs, and its log may "
    "say where"
  )


def _explain_queue(
  limiter: limiter_lib.Limiter,
  queue: str,
  counts: table_status.TableStatus,
  batch_size: int,
) -> str | None:
  """Returns a text about the side that a queue blocks, or None for neither."""
  if limiter.samples_missing(counts):
    return (
      f"workers wait because {queue} is full: the trainer must consume items"
    )
  if counts.size < batch_size:
    missing = _format_items(batch_size - counts.size)
    return (
      f"the trainer waits for {missing} in {queue}, "
      f"a batch of {batch_size:,}: workers must write"
    )
  return None


def _explain_absence(
  status: run_status.RunStatus, silent: Sequence[str]
) -> str | None:
  """Returns a text about nodes that are down or silent, or None without any."""
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


def _describe_counts(
  limiter: limiter_lib.Limiter, counts: table_status.TableStatus, is_queue: bool
) -> str:
  """Returns a text with a table's counts and its limiter's bounds."""
  if is_queue:
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


def _format_items(count: int) -> str:
  """Returns a number of items as a text such as '1,024 more items'."""
  return f"{count:,} more {'item' if count == 1 else 'items'}"
