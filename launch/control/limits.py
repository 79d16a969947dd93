"""Limits: checks a run's counts against section `limits` of its config."""

import math
import typing
from collections.abc import Mapping, Sequence

import ml_collections

from slipway.configs import base, fields
from slipway.launch.runs import run_status

# The reason of the stop if limits.combine='all' and several limits are set.
ALL_LIMITS = "all_limits"
# Distance below the target return, relative and absolute, within which a mean
# return reaches it: the rounding of sums of rewards, also of float32's.
_ROUNDING, _SMALLEST_ROUNDING = 1e-7, 1e-8
# Formats of a limit or of the run's count, by the limit's name.
_FORMATS = {
  "environment_steps": "{:,} environment steps",
  "trainer_steps": "{:,} trainer steps",
  "episodes": "{:,} episodes",
  "wall_clock_s": "{:,g} s of wall-clock time",
  "target_return": "a mean return of {:,g}",
  "target_info": "a mean of {} in infos",
  "evaluations_without_improvement": "{:,} evaluations without improvement",
}


class Counts(typing.NamedTuple):
  """A run's counts, each with the name of the limit that applies to it.

  Attributes:
    environment_steps: environment steps of all workers.
    trainer_steps: updates of the learner.
    episodes: training episodes of all workers.
    wall_clock_s: duration of the run in seconds.
    target_return: mean return of the last evaluation, or None if the last
      `limits.target_evaluations` evaluations did not all reach the target.
    target_info: the same for the mean of a number in infos.
    evaluations_without_improvement: evaluations since the best mean return
      last rose.
  """

  environment_steps: int = 0
  trainer_steps: int = 0
  episodes: int = 0
  wall_clock_s: float = 0.0
  target_return: float | None = None
  target_info: float | None = None
  evaluations_without_improvement: int = 0

  @classmethod
  def from_status(
    cls,
    status: run_status.RunStatus,
    limits: ml_collections.ConfigDict,
    returns: Sequence[float],
    infos: Sequence[Mapping[str, float]],
  ) -> "Counts":
    """Returns the counts of a run's status that have limits.

    Args:
      limits: section `limits` of a config, which may be another one.
      returns: mean returns of the run's last evaluations, in their order.
      infos: mean numbers of their infos, by name, in their order.
    """
    needed = limits.target_evaluations
    name, _ = base.parse_info_target(limits.target_info)
    at_return, at_info = count_at_targets(limits, returns, infos)
    return cls(
      status.env_steps,
      status.trainer_steps,
      status.episodes,
      status.wall_s,
      returns[-1] if at_return >= needed else None,
      infos[-1][name] if at_info >= needed else None,
      status.evaluation.without_improvement,
    )


def lowest_accepted(target: float) -> float:
  """Returns the lowest mean return that is the target but for rounding."""
  if not math.isfinite(target):
    return target
  return target - max(_ROUNDING * abs(target), _SMALLEST_ROUNDING)


def count_at_targets(
  limits: ml_collections.ConfigDict,
  returns: Sequence[float],
  infos: Sequence[Mapping[str, float]],
) -> tuple[int, int]:
  """Returns the numbers of evaluations since the last one below a target.

  Args:
    returns: mean returns of a run's last evaluations, in their order.
    infos: mean numbers of their infos, by name, in their order; an evaluation
      without the number is below the target.

  Returns:
    The number for `target_return`, and that for `target_info`.
  """
  name, target = base.parse_info_target(limits.target_info)
  numbers = [info.get(name, -math.inf) for info in infos]
  return (
    _count_last(returns, limits.target_return),
    _count_last(numbers, target),
  )


def _count_last(values: Sequence[float], target: float) -> int:
  """Returns how many values there are since the last one below a target."""
  lowest = lowest_accepted(target)
  below = (i for i, x in enumerate(reversed(values)) if x < lowest)
  return next(below, len(values))


def find_configured(limits: ml_collections.ConfigDict) -> list[str]:
  """Returns the names of the limits that a config sets.

  A limit with the default of its field is none.
  """
  return [
    name
    for name in Counts._fields
    if limits[name] != base.FIELDS[f"limits.{name}"].default
  ]


def describe_count(name: str, value: float | str) -> str:
  """Returns text such as '500,000 environment steps'.

  Args:
    value: the limit, or the run's count.
  """
  return _FORMATS[name].format(value)


def describe(limits: ml_collections.ConfigDict) -> str:
  """Returns text about the limits that a config sets.

  An example is '500,000 environment steps or a mean return of 475 (3
  evaluations in a row)'. The text is '' if there is no limit.
  """
  texts = []
  for name in find_configured(limits):
    text = describe_count(name, limits[name])
    if name.startswith("target_") and limits.target_evaluations > 1:
      text += f" ({limits.target_evaluations} evaluations in a row)"
    texts.append(text)
  return (" and " if limits.combine == "all" else " or ").join(texts)


def advise(config: ml_collections.ConfigDict) -> str:
  """Returns advice for a run that ends before its first update.

  Returns:
    One line; '' if the run has time to learn, as far as its config shows.
  """
  steps = config.limits.environment_steps
  needed = fields.get(config, "replay.min_size", 0)
  ends_by_steps = config.limits.combine == "any" or find_configured(
    config.limits
  ) == ["environment_steps"]
  if not ends_by_steps or not 0 < steps < needed:
    return ""
  return (
    f"config.limits.environment_steps={steps:,} is below "
    f"config.replay.min_size={needed:,}, so the run ends before its first "
    "update: raise the first, or lower the second"
  )


def find_reached(
  limits: ml_collections.ConfigDict, counts: Counts
) -> list[str]:
  """Returns the names of the limits that a run has reached."""
  values = counts._asdict()
  _, target = base.parse_info_target(limits.target_info)
  targets = {"target_return": limits.target_return, "target_info": target}
  lowest = {name: lowest_accepted(x) for name, x in targets.items()}
  needed = dict(limits) | lowest
  return [
    name
    for name in find_configured(limits)
    if values[name] is not None and values[name] >= needed[name]
  ]


def find_reason(
  limits: ml_collections.ConfigDict, counts: Counts
) -> str | None:
  """Returns the name of the limit that ends a run now, or None.

  A run ends at the first limit that it reaches. With limits.combine='all', it
  ends once it has reached all limits that are set.

  Returns:
    The name of a limit, `ALL_LIMITS` if several limits together end the run,
    or None if the run continues.
  """
  reached = find_reached(limits, counts)
  if limits.combine == "any" or not reached:
    return reached[0] if reached else None
  if reached != find_configured(limits):
    return None
  return reached[0] if len(reached) == 1 else ALL_LIMITS


def last_trainer_step(limits: ml_collections.ConfigDict) -> int:
  """Returns the trainer step at which the trainer stops, or 0 for no limit.

  With limits.combine='all' and further limits, the trainer must continue until
  the other limits are reached, too. The result is then 0.
  """
  ends_run = limits.combine == "any" or find_configured(limits) == [
    "trainer_steps"
  ]
  return limits.trainer_steps if ends_run else 0
