"""Checks of the returns of evaluations and training."""

from slipway.configs import base
from slipway.launch.diagnosis import finding

CHECKS = finding.Checks()

# Smallest difference of mean returns that a learner can see. An evaluation of
# 20 episodes with one reward of 1 has 0.05.
_MIN_SPREAD = 0.04
# Number of evaluations after which equal returns cause advice. With more, it
# would be late where evaluations are minutes apart.
_EQUAL_RETURNS = 10
# The same after evaluations with higher returns. A policy may get worse for a
# while before it gets better.
_LOWEST_RETURNS = 20


def _are_worse_than_training(e: finding.Evidence) -> bool:
  """Returns whether evaluations are clearly worse than training."""
  if len(e.returns) < _EQUAL_RETURNS or not e.has_returns_of_training:
    return False
  best = max(e.returns[-_EQUAL_RETURNS:])
  return (e.training_return or 0.0) - best > max(1.0, 0.5 * abs(best))


@CHECKS.add("greedy evaluations", finding.WARNING, live_after_s=0.0)
def _check_greedy_evaluations(e: finding.Evidence) -> str | None:
  if not _are_worse_than_training(e):
    return None
  return (
    f"training episodes have a mean return of {e.training_return:g}, and the "
    f"last {_EQUAL_RETURNS} evaluations one of "
    f"{max(e.returns[-_EQUAL_RETURNS:]):g} at most: "
    + (
      "set config.evaluation.policy='sampled', if the policy needs its "
      "randomness where several states look alike"
      if e.get("evaluation.policy") == "greedy"
      else "check that environments of the evaluator have the same task, and "
      "that exploration does not do the work of the policy"
    )
  )


@CHECKS.add("equal returns", finding.WARNING, live_after_s=0.0)
def _check_equal_returns(e: finding.Evidence) -> str | None:
  count = len(e.returns)
  # Of a longer run, the first evaluations are no longer known.
  if not _EQUAL_RETURNS <= count < base.RETURNS_KEPT or e.is_solved:
    return None
  if min(e.returns) < max(e.returns) or _are_worse_than_training(e):
    return None
  # Where observations are tiny numbers, networks hardly see their changes.
  is_vector = e.get("network.torso") == "mlp"
  unset = e.list_unset_norms("observations") if is_vector else []
  if e.get("bonus.kind") == "none":
    unset.append("config.bonus.kind='rnd'")
  return (
    f"all {count} evaluations so far had a mean return of {e.returns[-1]:g}, "
    "so the policy may never have seen a better one: raise the exploration "
    "or its noise, "
    + (f"set {' or '.join(unset)}, " if unset else "")
    + "or let the environment reward progress"
  )


@CHECKS.add("lowest returns", finding.WARNING, live_after_s=0.0)
def _check_lowest_returns(e: finding.Evidence) -> str | None:
  lowest = min(e.returns, default=0.0)
  if (
    e.is_solved
    or _are_worse_than_training(e)
    or not (
      lowest < max(e.returns, default=0.0)
      and [*e.returns[-_LOWEST_RETURNS:]] == [lowest] * _LOWEST_RETURNS
    )
  ):
    return None
  return (
    f"the last {_LOWEST_RETURNS} evaluations had a mean return of {lowest:g}, "
    "the lowest so far, so the policy may no longer try anything else: raise "
    f"the exploration or its noise, or lower {e.show('learner.learning_rate')}"
  )


@CHECKS.add("small rewards", finding.WARNING, live_after_s=0.0)
def _check_small_rewards(e: finding.Evidence) -> str | None:
  if len(e.returns) < _EQUAL_RETURNS:
    return None
  lowest, highest = min(e.returns), max(e.returns)
  if not (
    0.0 < highest - lowest < _MIN_SPREAD
    and e.get("normalization.rewards") is False
  ):
    return None
  return (
    f"the last {len(e.returns)} evaluations have mean returns between "
    f"{lowest:.3g} and {highest:.3g}, whose differences are too small beside "
    "entropy and noise: set config.normalization.rewards=True, or raise "
    f"{e.show('environment.reward_scale')}"
  )


@CHECKS.add("info", finding.WARNING, live_after_s=0.0)
def _check_info(e: finding.Evidence) -> str | None:
  target, _ = base.parse_info_target(e.config.limits.target_info)
  wanted = () if e.info is None else e.config.evaluation.info
  names = [x for x in wanted if x not in (target, *(e.info or ()))]
  if not names:
    return None
  return (
    f"no episode of an evaluation ended with {' or '.join(map(repr, names))} "
    "as a number in its info, so there is nothing to record: set config."
    "evaluation.info to names that the info of an episode's last step has"
  )


@CHECKS.add("target of infos", finding.WARNING, live_after_s=0.0)
def _check_target_of_infos(e: finding.Evidence) -> str | None:
  target, _ = base.parse_info_target(e.config.limits.target_info)
  if e.info is None or not target or target in e.info:
    return None
  return (
    f"not every episode of an evaluation ended with {target!r} as a number "
    "in its info, so it can't reach config.limits.target_info="
    f"{e.config.limits.target_info!r}, and the run does not end by it: return "
    "the number in the last step of each episode, or name another"
  )
