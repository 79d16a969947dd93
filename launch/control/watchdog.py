"""Watchdog: detects that a run has stalled, and explains the cause."""

import time
from collections.abc import Sequence

import ml_collections

from slipway.launch.control import rates as rates_lib
from slipway.launch.runs import run_status
from slipway.replay.tables import limiter as limiter_lib
from slipway.replay.tables import table_status


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
    """
    self._config = config
    self._limiter = rates.limiter
    self._last_counts: tuple[int, ...] | None = None
    self._progress_at_s: float | None = None  # monotonic
    self.stalled_s: float | None = None

  def update(
    self, status: run_status.RunStatus, working: bool, now_s: float
  ) -> bool:
    """Records a run's current counts; returns whether a stall has just begun.

    Args:
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

    The line has the duration, the node that waits, what would free it, and the
    counts of the table or of each shard.

    Args:
      silent: nodes that no longer report, such as 'worker 1'.
      waiting: sentence about nodes that wait, or None if there are none.
    """
    stalled_s, replay = self.stalled_s or 0.0, status.replay
    since = time.strftime("%H:%M:%S", time.localtime(time.time() - stalled_s))
    causes = [
      f"no progress since {since} ({stalled_s:,.0f} s): "
      + (
        _explain_absence(status, silent)
        or waiting
        or "no node waits, so one hangs: its log may say where"
      )
    ]
    if self._limiter is not None and replay is not None:
      for shard, counts in (replay.shards or {None: replay}).items():
        each = "" if shard is None else f"shard {shard}: "
        text = _describe_counts(self._limiter, counts, replay.is_queue)
        causes.append(each + text)
    return "; ".join(causes)


def _explain_absence(
  status: run_status.RunStatus, silent: Sequence[str]
) -> str | None:
  """Returns a text about nodes that are missing or silent, or None."""
  missing = [
    f"{role} {nodes.up} of {nodes.expected} up"
    for role, nodes in status.nodes.items()
    if nodes.up < nodes.expected
  ]
  if missing:
    return f"{', '.join(missing)}: the logs give the reason"
  if silent:
    return f"no report from {', '.join(silent)}: the logs may give the reason"
  collectors = [status.nodes.get(role) for role in ("worker", "external")]
  if "external" in status.nodes and not any(x and x.up for x in collectors):
    return (
      "config.topology.workers=0 and no external process is connected: connect "
      "one with slipway.connect"
    )
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
