"""Measurements: the rows of the panel with counts, rates and returns."""

import rich.text

from slipway.launch.display import status_text
from slipway.launch.runs import run_status

ALERT_STYLE = "yellow"  # style of nodes that are down, losses and stalls

# Text of a table's cell, and the cells of one row.
Cell = str | rich.text.Text
Row = tuple[Cell, ...]

# Labels of the rows about what collects steps, and about a table.
_COLLECTION_LABELS = {"environment", "items", "speed", "loading", "variables",
                      "training"}  # fmt: skip
_TABLE_LABELS = {"replay", "sampling"}


def make_blocks(status: run_status.RunStatus) -> list[list[Row]]:
  """Returns three blocks of rows: counts, rates and returns.

  A row has a label, a number with its unit, and a second number with its unit.
  Rows about workers, a table or a proxy are left out if the run has none.
  """
  hidden: set[Cell] = set()
  if not status_text.collects_steps(status):
    hidden |= _COLLECTION_LABELS
  if status.replay is None:
    hidden |= _TABLE_LABELS
  if status.proxy is None:
    hidden.add("proxy")
  blocks = (
    _make_count_rows(status),
    _make_rate_rows(status),
    _make_return_rows(status),
  )
  return [[row for row in rows if row[0] not in hidden] for rows in blocks]


def _make_count_rows(status: run_status.RunStatus) -> list[Row]:
  """Returns the rows with counts of steps, items and snapshots."""
  count, rate = status_text.format_count, status_text.format_rate
  snapshots, lost = status.snapshots, status.items_lost
  replay = status.replay or run_status.ReplayStatus()
  full = 100 * replay.size / replay.capacity if replay.capacity else 0
  return [
    ("environment", count(status.env_steps), "steps"),
    ("trainer", count(status.trainer_steps), "steps"),
    ("items", rate(status.rates.items_per_s), "confirmed/s",
     rich.text.Text(count(lost), ALERT_STYLE if lost else ""), "lost"),
    ("replay", count(replay.size),
     f"of {count(replay.capacity)} items",
     count(full), "% full"),
    ("snapshot", count(snapshots.age_s),
     _make_age_unit(snapshots.upload_failures), count(snapshots.written),
     "written"),
  ]  # fmt: skip


def _make_rate_rows(status: run_status.RunStatus) -> list[Row]:
  """Returns the rows with rates and their targets."""
  count, decimal, rate = (
    status_text.format_count,
    status_text.format_decimal,
    status_text.format_rate,
  )
  rates, variables = status.rates, status.variables
  replay = status.replay or run_status.ReplayStatus()
  proxy = status.proxy or run_status.ProxyStatus()
  return [
    ("speed", rate(rates.env_steps_per_s), "steps/s",
     *status_text.describe_target(rate, rates.env_steps_per_s_target)),
    ("learning", rate(rates.trainer_steps_per_s), "updates/s", "", ""),
    ("sampling", count(replay.size), "in queue",
     count(replay.sampled), "consumed") if replay.is_queue else
    ("sampling", decimal(replay.samples_per_insert), "samples/insert",
     *status_text.describe_target(decimal, replay.samples_per_insert_target)),
    ("loading", rate(variables.loads_per_trainer_step), "loads/update",
     *status_text.describe_target(
       rate, variables.loads_per_trainer_step_target)),
    ("variables", decimal(variables.mean_age_s), "s old on average",
     count(variables.version), "version"),
    ("proxy", decimal(rates.bytes_up_per_s / 1e6), "MB/s to replay",
     count(proxy.connections), "streams"),
  ]  # fmt: skip


def _make_return_rows(status: run_status.RunStatus) -> list[Row]:
  """Returns the rows with mean returns of training and evaluations."""
  count, decimal = status_text.format_count, status_text.format_decimal
  evaluation, goal = status.evaluation, status_text.target_return(status)
  return [
    ("training", decimal(status.training_return), "mean return", "", ""),
    ("evaluation", decimal(evaluation.mean_return), "mean return",
     decimal(evaluation.recent_mean_return), "last 10"),
    *(("", decimal(value), rich.text.Text(f"mean {name}"), "", "")
      for name, value in evaluation.info.items()),
    ("best", decimal(evaluation.best_mean_return),
     f"of {count(evaluation.count)} so far",
     *(("", "") if goal is None
       else (decimal(goal), status_text.describe_target_label(status)))),
  ]  # fmt: skip


def _make_age_unit(failed: int) -> Cell:
  """Returns the unit of the snapshot's age, and the count of failed uploads."""
  if not failed:
    return "s old"
  return rich.text.Text.assemble(
    "s old, ",
    (f"{status_text.format_count(failed)} not uploaded", ALERT_STYLE),
  )
