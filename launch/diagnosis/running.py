"""Checks of a run's status: nodes that fail or wait, and missing results."""

from slipway.launch.diagnosis import finding

CHECKS = finding.Checks()

# Environment steps after which an episode or an update should have ended.
_MANY_STEPS = 20_000
# Steps of random play after which nearly all environments end an episode.
_LONG_EPISODE = 1_000
# Seconds and publications by which variables may be old.
_MAX_AGE_S, _MIN_LOADS = 10.0, 0.2


@CHECKS.add("failures", finding.PROBLEM)
def _check_failures(e: finding.Evidence) -> str | None:
  failures = e.status.first_failures if e.status else {}
  if not failures:
    return None
  role, line = next(iter(failures.items()))
  return (
    f"{sum(e.status.node_restarts.values()) if e.status else 0} restarts of "
    f"nodes; the first {role} failed with: {line}; its log has the error"
  )


@CHECKS.add("stall", finding.PROBLEM)
def _check_stall(e: finding.Evidence) -> str | None:
  if e.status is None or e.status.stalled_s is None:
    return None
  waiting = e.status.waiting or "no node waits, so one hangs: read its log"
  return f"no progress for {e.status.stalled_s:,.0f} s: {waiting}"


@CHECKS.add("no updates", finding.PROBLEM)
def _check_no_updates(e: finding.Evidence) -> str | None:
  status, least = e.status, e.get("replay.min_size")
  if status is None or status.trainer_steps or status.replay is None:
    return None
  if status.phase != "stopped" and status.env_steps < _MANY_STEPS:
    return None  # it has just begun
  needs = f", and it needs {least:,} transitions" if least else ""
  return (
    f"the learner has made no update in {status.env_steps:,} environment "
    f"steps: the table has {status.replay.size:,} items{needs}: run longer, or "
    "lower replay.min_size"
  )


@CHECKS.add("endless episodes", finding.WARNING)
def _check_endless_episodes(e: finding.Evidence) -> str | None:
  status, probe = e.status, e.probe
  if status is None or status.episodes:
    return None
  # In mode single, the first evaluation may have been endless, too.
  has_played_in_vain = (
    status.phase == "stopped"
    and not status.evaluation.count
    and probe is not None
    and not probe.lengths
    and probe.longest_unfinished >= _LONG_EPISODE
  )
  if status.env_steps < _MANY_STEPS and not has_played_in_vain:
    return None
  return (
    f"no episode has ended in {status.env_steps:,} steps, so there are no "
    "returns: set config.environment.time_limit"
  )


@CHECKS.add("stale variables", finding.WARNING)
def _check_stale_variables(e: finding.Evidence) -> str | None:
  variables = e.status.variables if e.status else None
  if variables is None or e.status is None or e.status.phase != "running":
    return None
  age_s, loads = variables.mean_age_s, variables.loads_per_trainer_step
  target = variables.loads_per_trainer_step_target
  if not (age_s and target and loads is not None):
    return None
  if age_s < _MAX_AGE_S or loads >= _MIN_LOADS * target:
    return None
  return (
    f"workers act with variables that are {age_s:,.0f} s old, and load "
    f"{loads / target:.0%} of those published: use fewer environments per "
    "worker, or look at the machine's load"
  )
