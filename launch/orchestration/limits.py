"""Limits: decides when a run has reached its limits."""

import typing

import ml_collections

from slipway.launch.runs import run_counters, run_status

ALL = "all_limits"  # reason of a stop because all of several limits are reached


class Counts(typing.NamedTuple):
  """The counts that limits apply to, under the names of the limits.

  Attributes:
    environment_steps: environment steps of all workers.
    trainer_steps: updates of the learner.
    episodes: training episodes of all workers.
    wall_clock_s: seconds that the run has taken.
    target_return: mean return of the last evaluation, or None before one.
    evaluations_without_improvement: evaluations since the mean return was last
      higher than all before.
  """

  environment_steps: int = 0
  trainer_steps: int = 0
  episodes: int = 0
  wall_clock_s: float = 0.0
  target_return: float | None = None
  evaluations_without_improvement: int = 0

  @classmethod
  def from_status(cls, status: run_status.RunStatus) -> "Counts":
    """Returns the counts in a run's status."""
    return cls(
      status.env_steps,
      status.trainer_steps,
      status.episodes,
      status.wall_s,
      status.evaluation.mean_return,
      status.evaluation.without_improvement,
    )

  @classmethod
  def from_counters(cls, counters: run_counters.RunCounters) -> "Counts":
    """Returns the counts in a snapshot's counters."""
    return cls(
      counters.environment_steps,
      counters.trainer_steps,
      counters.episodes,
      counters.wall_s,
      counters.eval_return,
      counters.evaluations_without_improvement,
    )


def find_configured(limits: ml_collections.ConfigDict) -> list[str]:
  """Returns the names of the limits that a config sets.

  Args:
    limits: section `limits` of a config. A target return of infinity and other
      limits of 0 are not set.
  """
  return [
    name
    for name in Counts._fields
    if limits[name] != (float("inf") if name == "target_return" else 0)
  ]


def find_reached(
  limits: ml_collections.ConfigDict, counts: Counts
) -> list[str]:
  """Returns the names of the limits that are reached.

  Args:
    limits: section `limits` of a config.
    counts: the run's current counts.
  """
  values = counts._asdict()
  return [
    name
    for name in find_configured(limits)
    if values[name] is not None and values[name] >= limits[name]
  ]


def find_reason(
  limits: ml_collections.ConfigDict, counts: Counts
) -> str | None:
  """Returns the limit that ends a run now.

  A run ends at its first limit, or with limits.combine='all' once all limits
  that are set are reached.

  Args:
    limits: section `limits` of a config.
    counts: the run's current counts.

  Returns:
    The name of a limit, or `ALL` if several limits together end the run, or
    None if the run continues.
  """
  reached = find_reached(limits, counts)
  if limits.combine == "any" or not reached:
    return reached[0] if reached else None
  if reached != find_configured(limits):
    return None
  return reached[0] if len(reached) == 1 else ALL


def last_trainer_step(limits: ml_collections.ConfigDict) -> int:
  """Returns the trainer step at which the trainer stops, or 0 without a limit.

  If a run ends only once several limits are all reached, the trainer continues
  beyond its own limit, so there is none.

  Args:
    limits: section `limits` of a config.
  """
  ends_run = limits.combine == "any" or find_configured(limits) == [
    "trainer_steps"
  ]
  return limits.trainer_steps if ends_run else 0
