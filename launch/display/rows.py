"""Rows: what the panel and the plain lines show of a run's status."""

import math
import typing
from collections.abc import Iterator

from slipway.configs import base
from slipway.launch.display import formatting
from slipway.launch.runs import run_status

# Texts for the reasons of a run's stop, by values of `stopped_because`.
_REASON_TEXTS = {
  "environment_steps": "the limit of environment steps was reached",
  "trainer_steps": "the limit of trainer steps was reached",
  "episodes": "the limit of training episodes was reached",
  "wall_clock_s": "the limit of wall-clock time was reached",
  "target_return": "the target return was reached",
  "target_info": "the target of a number in infos was reached",
  "evaluations_without_improvement": "the evaluations no longer improved",
  "all_limits": "all limits were reached",
  "control": "a user stopped it by slipway control",
  "python": "the program that started it stopped it",
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
# Part of a memory or a disk in use from which the panel warns.
_FULL = 0.95


class Measurement(typing.NamedTuple):
  """A row with a number, and often with a second one.

  Attributes:
    label: name of the row.
    number: the first number as text, or '-' if it is unknown.
    unit: unit of the first number.
    second: the second number as text, or '' without one.
    second_unit: unit of the second number.
    alert: whether the second number stands out.
    in_line: whether the plain line has the row, too.
  """

  label: str
  number: str
  unit: str
  second: str = ""
  second_unit: str = ""
  alert: bool = False
  in_line: bool = False

  def __str__(self) -> str:
    second = f"{self.second} {self.second_unit}".strip()
    text = f"{self.label} {self.number} {self.unit}".strip()
    return f"{text} ({second})" if second else text


class Text(typing.NamedTuple):
  """A part of a row of texts.

  Attributes:
    text: the text.
    alert: whether it stands out, because it is about a fault.
  """

  text: str
  alert: bool = False


def make_measurements(
  status: run_status.RunStatus,
) -> list[list[Measurement]]:
  """Returns three blocks of rows: counts, rates and returns.

  Rows about workers, a table or a proxy are left out if the run has none.
  """
  return [
    list(make(status)) for make in (_find_counts, _find_rates, _find_returns)
  ]


def collects_steps(status: run_status.RunStatus) -> bool:
  """Returns whether a run has workers or external processes, which collect."""
  return "worker" in status.nodes or "external" in status.nodes


def _find_counts(status: run_status.RunStatus) -> Iterator[Measurement]:
  """Yields the rows with counts of steps, items and snapshots."""
  count, snapshots = formatting.count, status.snapshots
  if collects_steps(status):
    yield Measurement(
      "environment", count(status.env_steps), "steps", in_line=True
    )
  yield Measurement(
    "trainer", count(status.trainer_steps), "steps", in_line=True
  )
  if collects_steps(status):
    lost = status.items_lost
    yield Measurement(
      "items",
      formatting.rate(status.rates.items_per_s),
      "confirmed/s",
      count(lost),
      "lost",
      alert=lost > 0,
      in_line=lost > 0,
    )
  if (replay := status.replay) is not None:
    full = 100 * replay.size / replay.capacity if replay.capacity else 0
    yield Measurement(
      "replay",
      count(replay.size),
      f"of {count(replay.capacity)} items",
      count(full),
      "% full",
      in_line=True,
    )
  failed = snapshots.upload_failures
  yield Measurement(
    "snapshot",
    count(snapshots.age_s),
    f"s old, {count(failed)} not uploaded" if failed else "s old",
    count(snapshots.written),
    "written",
    alert=failed > 0,
    in_line=snapshots.written > 0,
  )


def _find_rates(status: run_status.RunStatus) -> Iterator[Measurement]:
  """Yields the rows with rates and their targets."""
  count, decimal, rate = formatting.count, formatting.decimal, formatting.rate
  rates, variables, replay = status.rates, status.variables, status.replay

  def target(write: typing.Callable[[typing.Any], str], value: float | None):
    """Returns a number and a label: ('250', 'target') or ('', 'no limit')."""
    is_none = formatting.to_finite(value) == 0
    return ("", "no limit") if is_none else (write(value), "target")

  if collects_steps(status):
    yield Measurement(
      "speed",
      rate(rates.env_steps_per_s),
      "steps/s",
      *target(rate, rates.env_steps_per_s_target),
      in_line=True,
    )
  yield Measurement(
    "learning", rate(rates.trainer_steps_per_s), "updates/s", in_line=True
  )
  if replay is not None and replay.is_queue:
    yield Measurement(
      "sampling",
      count(replay.size),
      "in queue",
      count(replay.sampled),
      "consumed",
      in_line=True,
    )
  elif replay is not None:
    yield Measurement(
      "sampling",
      decimal(replay.samples_per_insert),
      "samples/insert",
      *target(decimal, replay.samples_per_insert_target),
      in_line=True,
    )
  if collects_steps(status):
    yield Measurement(
      "loading",
      rate(variables.loads_per_trainer_step),
      "loads/update",
      *target(rate, variables.loads_per_trainer_step_target),
    )
    yield Measurement(
      "variables",
      decimal(variables.mean_age_s),
      "s old on average",
      count(variables.version),
      "version",
      in_line=True,
    )
  if status.proxy is not None:
    yield Measurement(
      "proxy",
      decimal(rates.bytes_up_per_s / 1e6),
      "MB/s to replay",
      count(status.proxy.connections),
      "streams",
    )


def _find_returns(status: run_status.RunStatus) -> Iterator[Measurement]:
  """Yields the rows with mean returns of training and evaluations."""
  decimal, evaluation = formatting.decimal, status.evaluation
  if collects_steps(status):
    yield Measurement(
      "training",
      decimal(status.training_return),
      "mean return",
      in_line=status.training_return is not None,
    )
  is_evaluated = evaluation.count > 0
  yield Measurement(
    "evaluation",
    decimal(evaluation.mean_return),
    "mean return",
    decimal(evaluation.recent_mean_return),
    "last 10",
    in_line=is_evaluated,
  )
  target_name, target = base.parse_info_target(status.limits.target_info)
  for name, value in evaluation.info.items():
    is_target = name == target_name
    yield Measurement(
      "",
      decimal(value),
      f"mean {name}",
      decimal(target) if is_target else "",
      _describe_target(status, evaluation.at_target_info) if is_target else "",
    )
  goal = formatting.to_finite(status.limits.target_return)
  yield Measurement(
    "best",
    decimal(evaluation.best_mean_return),
    f"of {formatting.count(evaluation.count)} so far",
    "" if goal is None else decimal(goal),
    "" if goal is None else _describe_target(status, evaluation.at_target),
    in_line=is_evaluated,
  )


def _describe_target(status: run_status.RunStatus, at_target: int) -> str:
  """Returns 'target', or 'target 2/3' with the evaluations that reached it."""
  needed = status.limits.target_evaluations
  if not at_target or needed == 1:
    return "target"
  return f"target {min(at_target, needed)}/{needed}"


def find_metrics(status: run_status.RunStatus) -> Iterator[str]:
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
    labels = {name: name for name in status.learner if not _is_loss(name)}
  for name, label in labels.items():
    yield f"{label} {formatting.metric(status.learner[name])}"


def find_losses(status: run_status.RunStatus) -> Iterator[str]:
  """Yields the losses of the learner's last update, with their names."""
  for name, value in status.learner.items():
    if _is_loss(name):
      yield f"{name.replace('_', ' ')} {formatting.metric(value)}"


def _is_loss(name: str) -> bool:
  return name.endswith("loss")


def find_time_left(status: run_status.RunStatus) -> list[str]:
  """Returns texts about the limits of the run, with the time that is left.

  Where the first limit that is reached ends the run, only the one with the
  shortest time has a text. Evaluations without improvement are counted.
  """
  rates, limits, count = status.rates, status.limits, formatting.count
  if status.phase in ("stopping", "stopped"):
    return []
  times: list[tuple[float, str]] = []
  for limit, done, per_s, unit in (
    (limits.environment_steps, status.env_steps, rates.env_steps_per_s,
     "environment steps"),
    (limits.trainer_steps, status.trainer_steps, rates.trainer_steps_per_s,
     "trainer steps"),
    (limits.episodes, status.episodes, rates.episodes_per_s, "episodes"),
  ):  # fmt: skip
    if limit:
      left = max(limit - done, 0)
      left_s = left / per_s if per_s > 0 else math.inf
      times.append((left_s, f"to {count(limit)} {unit}"))
  if limits.wall_clock_s:
    left_s = max(limits.wall_clock_s - status.wall_s, 0.0)
    whole = formatting.duration(limits.wall_clock_s)
    times.append((left_s, f"to {whole} of wall-clock time"))
  if limits.combine == "any" and times:
    times = [min(times)]
  texts = [
    f"{formatting.estimate(x) if x < math.inf else '-'} {y}" for x, y in times
  ]
  if limits.evaluations_without_improvement:
    texts.append(
      f"{count(status.evaluation.without_improvement)} of "
      f"{count(limits.evaluations_without_improvement)} evaluations without "
      "improvement"
    )
  return texts


def make_facts(
  status: run_status.RunStatus,
) -> Iterator[tuple[str, list[Text]]]:
  """Yields the labels and texts of nodes, machines, restarts and failures."""
  yield (
    "nodes up",
    [
      Text(
        f"{role.replace('_', ' ')} {nodes.up}/{nodes.expected}",
        nodes.up < nodes.expected,
      )
      for role, nodes in status.nodes.items()
    ],
  )
  yield "load", list(_describe_load(status))
  if status.machines:
    yield "machines", list(_describe_machines(status))
  restarts = [
    Text(f"{formatting.count(status.restarts)} of nodes"),
    Text(f"{formatting.count(status.reconnects)} of streams"),
  ]
  if status.resumes:
    restarts.append(Text(f"{formatting.count(status.resumes)} of the run"))
  yield "restarts", restarts
  for line in status.first_failures.values():
    yield "failure", [Text(line, True)]
  if status.unwritten:
    names = ", ".join(
      "events" if name.startswith("events.") else name
      for name in status.unwritten
    )
    yield "disk", [Text(f"not written yet: {names} (is the disk full?)", True)]
  if status.snapshots.late:
    yield "disk", [Text("no last snapshot: writing it took too long", True)]
  for name, error in status.failed_hooks.items():
    yield "hooks", [Text(f"{name} failed: {error}", True)]


def _describe_load(status: run_status.RunStatus) -> Iterator[Text]:
  """Yields the load of all machines: processors, memory, disk and GPUs."""
  machines = status.monitors.values()
  if not machines:
    yield Text(formatting.UNKNOWN)
    return
  busy = sum(machine.cpu_cores for machine in machines)
  cores = sum(machine.cores for machine in machines)
  yield Text(f"CPU {busy:.1f} of {formatting.count(cores)} cores")
  for label, used, size in (
    ("memory", "memory_used_bytes", "memory_bytes"),
    ("disk", "disk_used_bytes", "disk_bytes"),
  ):
    parts = [
      getattr(machine, used) / max(1, getattr(machine, size))
      for machine in machines
    ]
    # Of several machines, the fullest one is the next to fail.
    full = formatting.count(100 * max(parts))
    yield Text(f"{label} {full} %", max(parts) > _FULL)
  gpus = [
    gpu.utilization for machine in machines for gpu in machine.gpus.values()
  ]
  if gpus:
    yield Text(f"GPU {formatting.count(100 * sum(gpus) / len(gpus))} %")


def _describe_machines(status: run_status.RunStatus) -> Iterator[Text]:
  """Yields the machines that are up or down, and the rejected peers."""
  machines = status.machines
  up = sum(machine.up for machine in machines.values())
  yield Text(f"{up}/{len(machines)} up", up < len(machines))
  for group, machine in machines.items():
    if not machine.up:
      yield Text(f"{group} on {machine.host} is down", True)
  rejected = sum(machine.connections_refused for machine in machines.values())
  if rejected:
    shown = formatting.count(rejected)
    yield Text(f"{shown} unauthenticated peers rejected", True)


def make_diagnosis(status: run_status.RunStatus) -> tuple[str, Text]:
  """Returns the label and the text of the most important sentence.

  It is the reason to stop, the waiting nodes, or else the newest advice. A run
  that is stopping may wait for its last snapshot.
  """
  has_stopped = status.phase == "stopped"
  if has_stopped or (status.phase == "stopping" and not status.waiting):
    return "because", Text(describe_reason(status.stopped_because))
  if status.advice and not status.waiting:
    return "advice", Text(status.advice[-1], True)
  return "waiting", Text(status.waiting or "none", status.stalled_s is not None)


def describe_reason(stopped_because: str | None) -> str:
  """Returns the reason of a run's stop in words.

  Args:
    stopped_because: field of this name of a status or a summary.
  """
  because = stopped_because or "no reason was given"
  return _REASON_TEXTS.get(because, because.replace("_", " "))
