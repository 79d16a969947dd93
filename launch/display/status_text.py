"""Status text: a run's status as words, for the panel and for plain lines.

A status is the dict of `control.Control.status`. A value that is missing is
shown as missing: a run that has just begun has hardly any.
"""

import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MISSING = "-"

_REASONS = {
  "environment_steps": "the limit of environment steps was reached",
  "trainer_steps": "the limit of trainer steps was reached",
  "wall_clock_s": "the limit of wall-clock time was reached",
  "target_return": "the target return was reached",
  "control": "launch.control was told to stop it",
}

# The limit's name: what counts towards it, how fast, and in which unit.
_STEP_LIMITS = {
  "environment_steps": ("env_steps", "env_steps_per_s", "environment steps"),
  "trainer_steps": ("trainer_steps", "trainer_steps_per_s", "trainer steps"),
}


def finite(value: Any) -> float | None:
  """Returns `value` if it is a number to show."""
  known = isinstance(value, numbers.Real) and math.isfinite(value)
  return float(value) if known else None


def count(value: Any) -> str:
  """1234567.0: 1,234,567."""
  number = finite(value)
  return MISSING if number is None else f"{number:,.0f}"


def decimal(value: Any) -> str:
  """1234.5: 1,234.50."""
  number = finite(value)
  return MISSING if number is None else f"{number:,.2f}"


def rate(value: Any) -> str:
  """3217.4: 3,220. Three digits: the others only flicker."""
  number = finite(value)
  if number is None:
    return MISSING
  if abs(number) < 100:
    return f"{number:.3g}"
  digits = 2 - math.floor(math.log10(abs(number)))
  return f"{round(number, digits):,.0f}"


def clock(seconds: Any) -> str:
  """3725: 1:02:05."""
  number = finite(seconds)
  if number is None:
    return MISSING
  minutes, whole = divmod(int(number), 60)
  return f"{minutes // 60}:{minutes % 60:02}:{whole:02}"


def about(seconds: float) -> str:
  """3725: 1 h 02 min. As coarse as an estimate is."""
  if seconds >= 3600:
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02} min"
  if seconds >= 100:
    return f"{round(seconds / 60)} min"
  return f"{math.ceil(seconds / 5) * 5} s"


def limits(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
  """Yields (time left, limit) of each limit on steps or time that is set.

  The time left to a limit on steps is an estimate from the rate now.
  """
  wanted = status.get("limits") or {}
  for name, (key, rate_key, unit) in _STEP_LIMITS.items():
    limit = finite(wanted.get(name))
    if limit:
      done, per_s = finite(status.get(key)), finite(status.get(rate_key))
      left = (
        max(limit - (done or 0), 0) / per_s if per_s and per_s > 0 else None
      )
      yield (
        MISSING if left is None else about(left),
        f"to {count(limit)} {unit}",
      )
  limit = finite(wanted.get("wall_clock_s"))
  if limit:
    left = max(limit - (finite(status.get("wall_s")) or 0), 0)
    yield about(left), f"to {clock(limit)} of wall-clock time"


def target(status: Mapping[str, Any]) -> float | None:
  """Returns the mean return that ends the run, if one does."""
  return finite((status.get("limits") or {}).get("target_return"))


def mode(status: Mapping[str, Any]) -> str:
  """Returns how the nodes take turns, where they do; '' if they need not."""
  name = status.get("mode")
  return "" if name in (None, "async") else str(name)


def asked(write: Callable[[Any], str], value: Any) -> tuple[str, str]:
  """Returns what a rate is to be, and a word; 0 asks for nothing."""
  return ("", "no limit") if finite(value) == 0 else (write(value), "asked")


def restarts(status: Mapping[str, Any]) -> Iterator[str]:
  """Yields what was started anew; the run itself only where it was."""
  for key, what in (("restarts", "of nodes"), ("reconnects", "of streams")):
    yield f"{count(status.get(key))} {what}"
  resumes = finite(status.get("resumes"))
  if resumes:
    yield f"{count(resumes)} of the run"


def reason(status: Mapping[str, Any]) -> str:
  """Returns why the run stopped."""
  because = str(status.get("stopped_because") or "no reason was given")
  return _REASONS.get(because, because.replace("_", " "))


def nodes(status: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
  """Yields (role, nodes up, nodes expected)."""
  for role, (up, expected) in (status.get("nodes") or {}).items():
    yield role.replace("_", " "), up, expected


def machines(status: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
  """Yields what is to be said of machines, and whether it is as it should be.

  How many are up, which are not, and how many strangers they have refused.
  """
  parts = status.get("machines") or {}
  if not parts:
    return
  up = sum(part["up"] for part in parts.values())
  yield f"{up}/{len(parts)} up", up == len(parts)
  for name, part in parts.items():
    if not part["up"]:
      yield f"{name} on {part['host']} is lost", False
  strangers = sum(part["strangers"] for part in parts.values())
  if strangers:
    yield f"{count(strangers)} strangers refused", False


def progress_line(status: Mapping[str, Any]) -> str:
  """One line that says all of it, with units."""
  parts = [
    f"{count(status.get('env_steps'))} environment steps "
    f"({rate(status.get('env_steps_per_s'))}/s, "
    f"{_asked(rate, status.get('environment_steps_per_s_asked'))})",
    f"{count(status.get('trainer_steps'))} trainer steps "
    f"({rate(status.get('trainer_steps_per_s'))}/s)",
    f"replay {count(status.get('replay_size'))} of "
    f"{count(status.get('replay_capacity'))} items, "
    f"{decimal(status.get('samples_per_insert'))} samples per insert "
    f"({_asked(decimal, status.get('samples_per_insert_asked'))})",
    f"variables {decimal(status.get('variables_age_s'))} s old, "
    f"{rate(status.get('variable_loads_per_trainer_step'))} loads per trainer "
    "step "
    f"({_asked(rate, status.get('variable_loads_per_trainer_step_asked'))})",
    f"mean return {decimal(status.get('eval_return'))} ({_best(status)})",
  ]
  if finite(status.get("snapshots")):
    parts.append(
      f"snapshot {count(status.get('snapshot_age_s'))} s old, "
      f"{count(status.get('snapshots'))} written"
    )
  parts += [f"{left} {limit}" for left, limit in limits(status)]
  parts += [
    f"{role} {up} of {expected} up"
    for role, up, expected in nodes(status)
    if up < expected
  ]
  parts += [
    f"{count(status[key])} {what}"
    for key, what in (
      ("items_lost", "items lost"),
      ("env_steps_lost", "environment steps lost"),
      ("trainer_steps_lost", "trainer steps lost"),
      ("snapshot_upload_failures", "snapshots not uploaded"),
      ("reconnects", "reconnects"),
      ("restarts", "restarts"),
      ("resumes", "resumes"),
    )
    if finite(status.get(key))
  ]
  if status.get("waiting"):
    parts.append(f"waiting: {status['waiting']}")
  return _line(status, "; ".join(parts))


def evaluation_line(status: Mapping[str, Any]) -> str:
  return _line(
    status,
    f"evaluation {count(status.get('evaluations'))}: mean return "
    f"{decimal(status.get('eval_return'))} over "
    f"{count(status.get('eval_episodes'))} episodes ({_best(status)}) after "
    f"{count(status.get('env_steps'))} environment steps",
  )


def phase_line(status: Mapping[str, Any]) -> str:
  phase = status.get("phase")
  if phase in ("stopping", "stopped"):
    return _line(status, f"{phase}: {reason(status)}")
  taking_turns = mode(status)
  return _line(status, f"{phase}{taking_turns and f', mode {taking_turns}'}")


def _asked(write: Callable[[Any], str], value: Any) -> str:
  return " ".join(filter(None, asked(write, value)))


def _best(status: Mapping[str, Any]) -> str:
  best = f"best {decimal(status.get('best_eval_return'))}"
  goal = target(status)
  return best if goal is None else f"{best}, target {decimal(goal)}"


def _line(status: Mapping[str, Any], text: str) -> str:
  return f"{clock(status.get('wall_s'))} {status.get('name', 'run')}: {text}"
