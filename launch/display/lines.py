"""Lines: a run's status as plain lines, for a log file or a pipe."""

from collections.abc import Mapping

from slipway.launch.display import formatting, rows
from slipway.launch.runs import run_status

# Beginnings of texts that remain of interest, unlike those of older statuses.
_LASTING = ("advice: ", "restarted after a failure: ", "stopped: ")


def progress_line(status: run_status.RunStatus) -> str:
  """Returns one line with the main counts, rates and waits of a run."""
  parts = [
    str(row)
    for block in rows.make_measurements(status)
    for row in block
    if row.in_line
  ]
  limits = rows.find_time_left(status)
  # No limit alone ends the run where all must be reached.
  parts += [" and ".join(limits)] if needs_all(status) and limits else limits
  restarts = status.restarts + status.reconnects + status.resumes
  for label, texts in rows.make_facts(status):
    if label == "restarts":
      shown = texts if restarts else []
    elif label == "failure":  # has a line of its own, which need not return
      shown = texts if status.phase == "stopped" else []
    else:
      shown = [text for text in texts if text.alert]
    # All nodes of a stopped run have ended.
    if shown and (label != "nodes up" or status.phase != "stopped"):
      parts.append(f"{label}: " + ", ".join(text.text for text in shown))
  if status.waiting:
    parts.append(f"waiting: {status.waiting}")
  return _prefix_line(status, "; ".join(parts))


def needs_all(status: run_status.RunStatus) -> bool:
  """Returns whether the run ends only when all of its limits are reached."""
  return status.limits.combine == "all"


def is_replaceable(line: str, name: str) -> bool:
  """Returns whether a line of a run's output may be replaced by a later one."""
  _, prefix, text = line.partition(f" {name}: ")
  return line[:1].isdigit() and bool(prefix) and not text.startswith(_LASTING)


def advice_line(status: run_status.RunStatus, sentence: str) -> str:
  """Returns one line with a sentence of `RunStatus.advice`."""
  return _prefix_line(status, f"advice: {sentence}")


def failure_line(status: run_status.RunStatus, role: str) -> str:
  """Returns one line with a failure of `RunStatus.first_failures`."""
  line = status.first_failures[role]
  return _prefix_line(status, f"restarted after a failure: {line}")


def evaluation_line(status: run_status.RunStatus) -> str:
  """Returns one line with the results of the last evaluation."""
  evaluation = status.evaluation
  *_, returns = rows.make_measurements(status)
  (best,) = (row for row in returns if row.label == "best")
  return _prefix_line(
    status,
    f"evaluation {formatting.count(evaluation.count)}: mean return "
    f"{formatting.decimal(evaluation.mean_return)} over "
    f"{formatting.count(evaluation.episodes)} episodes (mean of last 10 "
    f"{formatting.decimal(evaluation.recent_mean_return)}); {best}"
    f"{describe_info(evaluation.info)} after "
    f"{formatting.count(status.env_steps)} environment steps",
  )


def describe_info(info: Mapping[str, float]) -> str:
  """Returns ', mean NAME NUMBER' for each number of infos, or ''."""
  return "".join(
    f", mean {name} {formatting.decimal(value)}" for name, value in info.items()
  )


def phase_line(status: run_status.RunStatus) -> str:
  """Returns one line with the run's phase, and its mode or reason to stop."""
  if status.phase in ("stopping", "stopped"):
    because = rows.describe_reason(status.stopped_because)
    return _prefix_line(status, f"{status.phase}: {because}")
  mode = "" if status.mode == "async" else f", mode {status.mode}"
  return _prefix_line(status, f"{status.phase}{mode}")


def _prefix_line(status: run_status.RunStatus, text: str) -> str:
  """Returns `text` after the run's duration and name."""
  return f"{formatting.duration(status.wall_s)} {status.name}: {text}"
