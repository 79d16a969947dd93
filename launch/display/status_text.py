"""Status text: formats a run's status, for the panel and for plain lines.

An unknown value is shown as '-'.
"""

import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

from slipway.launch.runs import run_status

MISSING = "-"

_REASONS = {
  "environment_steps": "the limit of environment steps was reached",
  "trainer_steps": "the limit of trainer steps was reached",
  "episodes": "the limit of training episodes was reached",
  "wall_clock_s": "the limit of wall-clock time was reached",
  "target_return": "the target return was reached",
  "evaluations_without_improvement": "the evaluations no longer improved",
  "all_limits": "all limits were reached",
  "control": "a user stopped it by slipway control",
}


def finite(value: Any) -> float | None:
  """Returns a value as a float, or None if it is not a finite number."""
  known = isinstance(value, numbers.Real) and math.isfinite(value)
  return float(value) if known else None


def count(value: Any) -> str:
  """Formats a count, such as 1234567.0 as '1,234,567'."""
  number = finite(value)
  return MISSING if number is None else f"{number:,.0f}"


def decimal(value: Any) -> str:
  """Formats a number with two decimals, such as 1234.5 as '1,234.50'."""
  number = finite(value)
  return MISSING if number is None else f"{number:,.2f}"


def rate(value: Any) -> str:
  """Formats a rate with three significant digits: 3217.4 as '3,220'."""
  number = finite(value)
  if number is None:
    return MISSING
  if abs(number) < 100:
    return f"{number:.3g}"
  digits = 2 - math.floor(math.log10(abs(number)))
  return f"{round(number, digits):,.0f}"


def format_duration(seconds: Any) -> str:
  """Formats seconds as hours, minutes and seconds: 3725 as '1:02:05'."""
  number = finite(seconds)
  if number is None:
    return MISSING
  minutes, whole = divmod(int(number), 60)
  return f"{minutes // 60}:{minutes % 60:02}:{whole:02}"


def about(seconds: float) -> str:
  """Formats an estimate of seconds coarsely: 3725 as '1 h 02 min'."""
  if seconds >= 3600:
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02} min"
  if seconds >= 100:
    return f"{round(seconds / 60)} min"
  return f"{math.ceil(seconds / 5) * 5} s"


def limits(status: run_status.RunStatus) -> Iterator[tuple[str, str]]:
  """Yields texts (time left, limit) for each limit that is set.

  The time left until a limit on steps or episodes is estimated from the current
  rate. For evaluations without improvement, their count takes its place. The
  target return is left out, since it is shown with the evaluations.
  """
  goals, rates = status.limits, status.rates
  for limit, done, per_s, unit in (
    (
      goals.environment_steps,
      status.env_steps,
      rates.env_steps_per_s,
      "environment steps",
    ),
    (
      goals.trainer_steps,
      status.trainer_steps,
      rates.trainer_steps_per_s,
      "trainer steps",
    ),
    (goals.episodes, status.episodes, rates.episodes_per_s, "episodes"),
  ):
    if limit:
      left = about(max(limit - done, 0) / per_s) if per_s > 0 else MISSING
      yield left, f"to {count(limit)} {unit}"
  if goals.wall_clock_s:
    left_s = max(goals.wall_clock_s - status.wall_s, 0.0)
    yield (
      about(left_s),
      f"to {format_duration(goals.wall_clock_s)} of wall-clock time",
    )
  if goals.evaluations_without_improvement:
    yield (
      count(status.evaluation.without_improvement),
      f"of {count(goals.evaluations_without_improvement)} evaluations without "
      "improvement",
    )


def needs_all(status: run_status.RunStatus) -> bool:
  """Returns whether the run ends only when all of its limits are reached."""
  return status.limits.combine == "all"


def target_return(status: run_status.RunStatus) -> float | None:
  """Returns the mean return at which the run ends, or None for no limit."""
  return finite(status.limits.target_return)


def mode(status: run_status.RunStatus) -> str:
  """Returns the run's mode, or '' for the default mode 'async'."""
  return "" if status.mode == "async" else status.mode


def target(write: Callable[[Any], str], value: Any) -> tuple[str, str]:
  """Returns a rate's target as a number and a label, such as ('250', 'target').

  Args:
    write: function that formats the number.
    value: the target, or 0 if the rate has no limit.
  """
  return ("", "no limit") if finite(value) == 0 else (write(value), "target")


def collects(status: run_status.RunStatus) -> bool:
  """Returns whether workers or external processes collect for the run."""
  return "worker" in status.nodes or "external" in status.nodes


def restarts(status: run_status.RunStatus) -> Iterator[str]:
  """Yields the restarts of nodes and streams, and the resumes of the run."""
  yield f"{count(status.restarts)} of nodes"
  yield f"{count(status.reconnects)} of streams"
  if status.resumes:
    yield f"{count(status.resumes)} of the run"


def reason(stopped_because: str | None) -> str:
  """Returns the reason of a stop in words.

  Args:
    stopped_because: value of this field in a status or a summary.
  """
  because = stopped_because or "no reason was given"
  return _REASONS.get(because, because.replace("_", " "))


def nodes(status: run_status.RunStatus) -> Iterator[tuple[str, int, int]]:
  """Yields (role, number of nodes up, number of nodes expected)."""
  for role, nodes_of_role in status.nodes.items():
    yield role.replace("_", " "), nodes_of_role.up, nodes_of_role.expected


def machines(status: run_status.RunStatus) -> Iterator[tuple[str, bool]]:
  """Yields texts about the machines, each with whether all is well.

  The texts give the number of machines that are up, the machines that are down,
  and the number of unauthenticated peers that were rejected.
  """
  by_group = status.machines
  if not by_group:
    return
  up = sum(machine.up for machine in by_group.values())
  yield f"{up}/{len(by_group)} up", up == len(by_group)
  for group, machine in by_group.items():
    if not machine.up:
      yield f"{group} on {machine.host} is down", False
  rejected = sum(machine.connections_refused for machine in by_group.values())
  if rejected:
    yield f"{count(rejected)} unauthenticated peers rejected", False


def items(replay: run_status.ReplayStatus) -> str:
  """Returns a text: size and samples per insert, or a queue's counts."""
  size = f"replay {count(replay.size)} of {count(replay.capacity)} items"
  if replay.consumed:
    return f"{size} in queue, {count(replay.sampled)} consumed"
  wanted = target(decimal, replay.samples_per_insert_target)
  return (
    f"{size}, {decimal(replay.samples_per_insert)} samples per insert "
    f"({_join(wanted)})"
  )


def progress_line(status: run_status.RunStatus) -> str:
  """Returns one line with all counts, rates and waits of a status."""
  rates, variables, snapshots = (
    status.rates,
    status.variables,
    status.snapshots,
  )
  parts = []
  if collects(status):
    parts.append(
      f"{count(status.env_steps)} environment steps "
      f"({rate(rates.env_steps_per_s)}/s, "
      f"{_join(target(rate, rates.env_steps_per_s_target))})"
    )
  parts.append(
    f"{count(status.trainer_steps)} trainer steps "
    f"({rate(rates.trainer_steps_per_s)}/s)"
  )
  if status.replay is not None:
    parts.append(items(status.replay))
  if collects(status):
    loads = target(rate, variables.loads_per_trainer_step_target)
    parts.append(
      f"variables {decimal(variables.mean_age_s)} s old, "
      f"{rate(variables.loads_per_trainer_step)} loads per trainer step "
      f"({_join(loads)})"
    )
  parts.append(
    f"mean return {decimal(status.evaluation.mean_return)} ({_best(status)})"
  )
  if snapshots.written:
    parts.append(
      f"snapshot {count(snapshots.age_s)} s old, "
      f"{count(snapshots.written)} written"
    )
  ends = [f"{left} {limit}" for left, limit in limits(status)]
  parts += [" and ".join(ends)] if ends and needs_all(status) else ends
  parts += [
    f"{role} {up} of {expected} up"
    for role, up, expected in nodes(status)
    if up < expected
  ]
  parts += [
    f"{count(number)} {noun}"
    for number, noun in (
      (status.items.lost, "items lost"),
      (status.env_steps_lost, "environment steps lost"),
      (status.trainer_steps_lost, "trainer steps lost"),
      (snapshots.upload_failures, "snapshots not uploaded"),
      (status.reconnects, "reconnects"),
      (status.restarts, "restarts"),
      (status.resumes, "resumes"),
    )
    if number
  ]
  if status.unwritten:
    parts.append(unwritten(status))
  parts += failed_hooks(status)
  if status.waiting:
    parts.append(f"waiting: {status.waiting}")
  return _line(status, "; ".join(parts))


def unwritten(status: run_status.RunStatus) -> str:
  """Returns a text with the files that wait for space on the disk."""
  names = ("events" if n.startswith("events.") else n for n in status.unwritten)
  return f"not written yet: {', '.join(names)} (is the disk full?)"


def failed_hooks(status: run_status.RunStatus) -> list[str]:
  """Returns a text per hook that has failed."""
  return [
    f"hook {name} failed: {error}"
    for name, error in status.failed_hooks.items()
  ]


def evaluation_line(status: run_status.RunStatus) -> str:
  """Returns one line with the last evaluation."""
  evaluation = status.evaluation
  return _line(
    status,
    f"evaluation {count(evaluation.count)}: mean return "
    f"{decimal(evaluation.mean_return)} over {count(evaluation.episodes)} "
    f"episodes ({_best(status)}) after {count(status.env_steps)} environment "
    "steps",
  )


def phase_line(status: run_status.RunStatus) -> str:
  """Returns one line with the phase of the run."""
  if status.phase in ("stopping", "stopped"):
    return _line(status, f"{status.phase}: {reason(status.stopped_because)}")
  shown_mode = mode(status)
  suffix = f", mode {shown_mode}" if shown_mode else ""
  return _line(status, f"{status.phase}{suffix}")


def _join(texts: tuple[str, str]) -> str:
  """Joins a number and its label, of which either may be empty."""
  return " ".join(filter(None, texts))


def _best(status: run_status.RunStatus) -> str:
  """Returns a text with the best mean return and any target return."""
  best = f"best {decimal(status.evaluation.best_mean_return)}"
  goal = target_return(status)
  return best if goal is None else f"{best}, target {decimal(goal)}"


def _line(status: run_status.RunStatus, text: str) -> str:
  """Returns a line that begins with the run's duration and name."""
  return f"{format_duration(status.wall_s)} {status.name}: {text}"
