"""Checks of a run's status: nodes that fail or wait, and missing results."""

import re
from collections.abc import Iterator

from slipway.launch.diagnosis import finding
from slipway.launch.runs import run_status

# Environment steps after which an episode or an update should have ended, and
# steps of one episode of random play that are unusually many.
_MANY_STEPS, _LONG_EPISODE = 20_000, 1_000
_STARVED = r"the trainer waits for transitions, since [\d:]+ \(([\d,]+) s\)"
_STARVED_S = 5.0  # for which the trainer waits
# Seconds by which variables may be old, and the part of them to be loaded.
_MAX_AGE_S, _MIN_LOADS = 10.0, 0.2


def check(e: finding.Evidence) -> Iterator[finding.Finding]:
  """Yields the findings in a run's status."""
  status = e.status
  for role, line in [*status.first_failures.items()][:1]:
    yield finding.problem(
      "failures",
      f"{status.restarts} restarts of nodes: the first {role} failed with: "
      f"{line}; its log has the error",
    )
  has_many = status.env_steps > _MANY_STEPS
  if not status.trainer_steps and (has_many or status.phase == "stopped"):
    size = status.replay.size if status.replay else 0
    yield finding.problem(
      "no updates",
      f"no update in {status.env_steps:,} environment steps, with {size:,} "
      "items in the replay: run longer, or lower replay.min_size",
    )
  steps = e.probe.longest_unfinished if e.probe and not e.probe.lengths else 0
  has_ended = status.episodes or status.evaluation.count
  if not has_ended and (has_many or steps >= _LONG_EPISODE):
    yield finding.warning(
      "endless episodes",
      f"no episode has ended in {status.env_steps:,} steps, so there are no "
      "returns: set config.environment.time_limit",
    )
  if status.phase != "stopped":
    yield from _check_waits(status)


def _check_waits(status: run_status.RunStatus) -> Iterator[finding.Finding]:
  starved = re.search(_STARVED, status.waiting or "")
  if status.stalled_s is not None:
    waiting = status.waiting or "no node waits, so one hangs: read its log"
    yield finding.problem(
      "stall", f"no progress for {status.stalled_s:,.0f} s: {waiting}"
    )
  elif starved and int(starved[1].replace(",", "")) >= _STARVED_S:
    yield finding.warning(
      "starved trainer",
      f"the trainer has waited for transitions for {starved[1]} s: use more "
      "config.topology.workers, or raise config.replay.samples_per_insert",
    )
  variables = status.variables
  loads = variables.loads_per_trainer_step
  target = variables.loads_per_trainer_step_target or 0.0
  is_old = (variables.mean_age_s or 0.0) >= _MAX_AGE_S
  if is_old and loads is not None and loads < _MIN_LOADS * target:
    yield finding.warning(
      "stale variables",
      f"workers act with variables that are {variables.mean_age_s:,.0f} s old, "
      f"and load {loads / target:.0%} of those published: use fewer "
      "environments per worker, or look at the machine's load",
    )
