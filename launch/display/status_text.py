"""Status text: formats a run's status, for the panel and for plain lines.

An unknown number is shown as '-'.
"""

import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from slipway.launch.runs import run_status

_UNKNOWN = "-"  # text in place of an unknown number

# Texts for the reasons of a run's stop, by values of `stopped_because`.
_REASON_TEXTS = {
  "environment_steps": "the limit of environment steps was reached",
  "trainer_steps": "the limit of trainer steps was reached",
  "episodes": "the limit of training episodes was reached",
  "wall_clock_s": "the limit of wall-clock time was reached",
  "target_return": "the target return was reached",
  "evaluations_without_improvement": "the evaluations no longer improved",
  "all_limits": "all limits were reached",
  "control": "a user stopped it by slipway control",
}

# Metrics of the learner's last update that are shown, with their labels.
_METRIC_LABELS = {
  "entropy": "entropy",
  "kl": "KL",
  "policy_age_versions_mean": "age",
  "clip_fraction": "clipped",
  "explained_variance": "explained",
  "temperature": "temperature",
  "q_mean": "Q",
  "td_error_abs_mean": "TD error",
}


def to_finite(value: Any) -> float | None:
  """Returns a value as a float, or None if it is not a finite number."""
  known = isinstance(value, numbers.Real) and math.isfinite(value)
  return float(value) if known else None


def format_count(value: Any) -> str:
  """Formats a count without decimals, such as 1234567.0 as '1,234,567'."""
  number = to_finite(value)
  return _UNKNOWN if number is None else f"{number:,.0f}"


def format_decimal(value: Any) -> str:
  """Formats a number with two decimals, such as 1234.5 as '1,234.50'."""
  number = to_finite(value)
  return _UNKNOWN if number is None else f"{number:,.2f}"


def format_rate(value: Any) -> str:
  """Formats a rate with three significant digits, such as 3217.4 as '3,220'."""
  number = to_finite(value)
  if number is None:
    return _UNKNOWN
  if abs(number) < 100:
    return f"{number:.3g}"
  digits = 2 - math.floor(math.log10(abs(number)))
  return f"{round(number, digits):,.0f}"


def format_duration(seconds: Any) -> str:
  """Formats seconds as hours:minutes:seconds, such as 3725 as '1:02:05'."""
  number = to_finite(seconds)
  if number is None:
    return _UNKNOWN
  minutes, whole = divmod(int(number), 60)
  return f"{minutes // 60}:{minutes % 60:02}:{whole:02}"


def format_estimate(seconds: float) -> str:
  """Formats an estimated duration coarsely, such as 3725 s as '1 h 02 min'."""
  if seconds >= 3600:
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02} min"
  if seconds >= 100:
    return f"{round(seconds / 60)} min"
  return f"{math.ceil(seconds / 5) * 5} s"


def describe_limits(status: run_status.RunStatus) -> Iterator[tuple[str, str]]:
  """Yields two texts per limit of the run: the time left, and the limit.

  The time left until a limit on steps or episodes is estimated from the current
  rate. For the limit on evaluations without improvement, the first text is the
  current count instead. The target return is left out, because it is shown with
  the evaluations.
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
      left = (
        format_estimate(max(limit - done, 0) / per_s) if per_s > 0 else _UNKNOWN
      )
      yield left, f"to {format_count(limit)} {unit}"
  if goals.wall_clock_s:
    left_s = max(goals.wall_clock_s - status.wall_s, 0.0)
    yield (
      format_estimate(left_s),
      f"to {format_duration(goals.wall_clock_s)} of wall-clock time",
    )
  if goals.evaluations_without_improvement:
    limit = format_count(goals.evaluations_without_improvement)
    yield (
      format_count(status.evaluation.without_improvement),
      f"of {limit} evaluations without improvement",
    )


def describe_metrics(status: run_status.RunStatus) -> Iterator[str]:
  """Yields the main metrics of the learner's last update, with labels.

  Where a learner has none of those that Slipway's families have, all of its own
  are yielded by their names.
  """
  labels = {
    name: label
    for name, label in _METRIC_LABELS.items()
    if name in status.learner
  }
  if not labels.keys() - {"policy_age_versions_mean"}:
    labels = {name: name for name in status.learner}
  for name, label in labels.items():
    yield f"{label} {_format_metric(status.learner[name])}"


def _format_metric(value: Any) -> str:
  """Formats a number briefly, such as 0.00421 as '0.0042', and 1.02 as '1'."""
  number = to_finite(value)
  if number is None or abs(number) >= 10:
    return format_decimal(number)
  return f"{number:.2g}"


def needs_all(status: run_status.RunStatus) -> bool:
  """Returns whether the run ends only when all of its limits are reached."""
  return status.limits.combine == "all"


def target_return(status: run_status.RunStatus) -> float | None:
  """Returns the mean return that ends the run, or None if none is set."""
  return to_finite(status.limits.target_return)


def describe_target_label(status: run_status.RunStatus) -> str:
  """Returns 'target', and how many evaluations in a row have reached it.

  An example is 'target 2/3'. The second part is left out if the last evaluation
  has not reached the target, or if one evaluation is enough.
  """
  at_target = status.evaluation.at_target
  needed = status.limits.target_evaluations
  if not at_target or needed == 1:
    return "target"
  return f"target {min(at_target, needed)}/{needed}"


def describe_mode(status: run_status.RunStatus) -> str:
  """Returns the run's mode, or '' for the default mode 'async'."""
  return "" if status.mode == "async" else status.mode


def describe_target(write: Callable[[Any], str], value: Any) -> tuple[str, str]:
  """Returns a number and a label: ('250', 'target') or ('', 'no limit').

  Args:
    write: function that formats the number.
    value: the target of a rate, or 0 if the rate has no limit.
  """
  return ("", "no limit") if to_finite(value) == 0 else (write(value), "target")


def collects_steps(status: run_status.RunStatus) -> bool:
  """Returns whether a run has workers or external processes, which collect."""
  return "worker" in status.nodes or "external" in status.nodes


def describe_restarts(status: run_status.RunStatus) -> Iterator[str]:
  """Yields texts with the restarts of nodes, of streams and of the run."""
  yield f"{format_count(status.restarts)} of nodes"
  yield f"{format_count(status.reconnects)} of streams"
  if status.resumes:
    yield f"{format_count(status.resumes)} of the run"


def describe_reason(stopped_because: str | None) -> str:
  """Returns the reason of a run's stop in words.

  Args:
    stopped_because: field of this name of a status or a summary.
  """
  because = stopped_because or "no reason was given"
  return _REASON_TEXTS.get(because, because.replace("_", " "))


def list_nodes(status: run_status.RunStatus) -> Iterator[tuple[str, int, int]]:
  """Yields per role: its name, its nodes that are up, and its target number."""
  for role, nodes_of_role in status.nodes.items():
    yield role.replace("_", " "), nodes_of_role.up, nodes_of_role.expected


def describe_machines(
  status: run_status.RunStatus,
) -> Iterator[tuple[str, bool]]:
  """Yields texts about a cluster's machines; nothing if there is one machine.

  The texts give the number of machines that are up, the machines that are down,
  and the number of unauthenticated peers that were rejected. Each text comes
  with False if it is about a fault, or else True.
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
    yield f"{format_count(rejected)} unauthenticated peers rejected", False


def describe_replay(replay: run_status.ReplayStatus) -> str:
  """Returns a text with a table's size, and its samples per insert.

  For a queue, the number of consumed items takes the place of the ratio.
  """
  capacity = format_count(replay.capacity)
  size = f"replay {format_count(replay.size)} of {capacity} items"
  if replay.is_queue:
    return f"{size} in queue, {format_count(replay.sampled)} consumed"
  wanted = describe_target(format_decimal, replay.samples_per_insert_target)
  return (
    f"{size}, {format_decimal(replay.samples_per_insert)} samples per insert "
    f"({_join_target(wanted)})"
  )


def progress_line(status: run_status.RunStatus) -> str:
  """Returns one line with the main counts, rates and waits of a run."""
  rates, variables, snapshots = (
    status.rates,
    status.variables,
    status.snapshots,
  )
  parts = []
  if collects_steps(status):
    wanted = describe_target(format_rate, rates.env_steps_per_s_target)
    parts.append(
      f"{format_count(status.env_steps)} environment steps "
      f"({format_rate(rates.env_steps_per_s)}/s, {_join_target(wanted)})"
    )
  parts.append(
    f"{format_count(status.trainer_steps)} trainer steps "
    f"({format_rate(rates.trainer_steps_per_s)}/s)"
  )
  if status.replay is not None:
    parts.append(describe_replay(status.replay))
  if collects_steps(status):
    loads = describe_target(
      format_rate, variables.loads_per_trainer_step_target
    )
    parts.append(
      f"variables {format_decimal(variables.mean_age_s)} s old, "
      f"{format_rate(variables.loads_per_trainer_step)} loads per trainer step "
      f"({_join_target(loads)})"
    )
  if status.training_return is not None:
    parts.append(f"training return {format_decimal(status.training_return)}")
  if status.evaluation.count or status.training_return is None:
    parts.append(
      f"mean return {format_decimal(status.evaluation.mean_return)} "
      f"({_describe_returns(status)})"
    )
  if snapshots.written:
    parts.append(
      f"snapshot {format_count(snapshots.age_s)} s old, "
      f"{format_count(snapshots.written)} written"
    )
  limits = [f"{left} {limit}" for left, limit in describe_limits(status)]
  if limits and needs_all(status):
    limits = [" and ".join(limits)]  # one part, as no limit alone ends the run
  parts += limits
  parts += [
    f"{role} {up} of {expected} up"
    for role, up, expected in list_nodes(status)
    if up < expected
  ]
  parts += [
    f"{format_count(number)} {noun}"
    for number, noun in (
      (status.items_lost, "items lost"),
      (snapshots.upload_failures, "snapshots not uploaded"),
      (status.reconnects, "reconnects"),
      (status.restarts, "restarts"),
      (status.resumes, "resumes"),
    )
    if number
  ]
  parts += describe_disk(status)
  parts += describe_failed_hooks(status)
  if status.waiting:
    parts.append(f"waiting: {status.waiting}")
  return _prefix_line(status, "; ".join(parts))


def describe_disk(status: run_status.RunStatus) -> list[str]:
  """Returns one text per kind of file that is missing on the disk."""
  texts = []
  if status.unwritten:
    names = ", ".join(
      "events" if name.startswith("events.") else name
      for name in status.unwritten
    )
    texts.append(f"not written yet: {names} (is the disk full?)")
  if status.snapshots.late:
    texts.append("no last snapshot: writing it took too long")
  return texts


def describe_failed_hooks(status: run_status.RunStatus) -> list[str]:
  """Returns one text per failed hook, with its name and error."""
  return [
    f"hook {name} failed: {error}"
    for name, error in status.failed_hooks.items()
  ]


def advice_line(status: run_status.RunStatus, sentence: str) -> str:
  """Returns one line with a sentence of `RunStatus.advice`."""
  return _prefix_line(status, f"advice: {sentence}")


def evaluation_line(status: run_status.RunStatus) -> str:
  """Returns one line with the results of the last evaluation."""
  evaluation = status.evaluation
  return _prefix_line(
    status,
    f"evaluation {format_count(evaluation.count)}: mean return "
    f"{format_decimal(evaluation.mean_return)} over "
    f"{format_count(evaluation.episodes)} episodes "
    f"({_describe_returns(status)}){describe_info(evaluation.info)} after "
    f"{format_count(status.env_steps)} environment steps",
  )


def describe_info(info: Mapping[str, float]) -> str:
  """Returns ', mean NAME NUMBER' for each number of infos, or ''."""
  return "".join(
    f", mean {name} {format_decimal(value)}" for name, value in info.items()
  )


def phase_line(status: run_status.RunStatus) -> str:
  """Returns one line with the run's phase, and its mode or reason to stop."""
  if status.phase in ("stopping", "stopped"):
    return _prefix_line(
      status, f"{status.phase}: {describe_reason(status.stopped_because)}"
    )
  shown_mode = describe_mode(status)
  suffix = f", mode {shown_mode}" if shown_mode else ""
  return _prefix_line(status, f"{status.phase}{suffix}")


def _join_target(texts: tuple[str, str]) -> str:
  """Joins the number and the label of `describe_target`; '' is left out."""
  return " ".join(filter(None, texts))


def _describe_returns(status: run_status.RunStatus) -> str:
  """Returns a text with the last 10 returns' mean, the best, and any target."""
  evaluation, goal = status.evaluation, target_return(status)
  parts = [
    f"mean of last 10 {format_decimal(evaluation.recent_mean_return)}",
    f"best {format_decimal(evaluation.best_mean_return)}",
  ]
  if goal is not None:
    parts.append(f"{format_decimal(goal)} {describe_target_label(status)}")
  return ", ".join(parts)


def _prefix_line(status: run_status.RunStatus, text: str) -> str:
  """Returns `text` after the run's duration and name."""
  return f"{format_duration(status.wall_s)} {status.name}: {text}"
