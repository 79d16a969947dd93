"""Checks of the learner's metrics and of returns, which show that it fails.

Their findings are also the advice of live runs.
"""

import math
from collections.abc import Iterator

from slipway.configs import base
from slipway.launch.diagnosis import finding

# Updates before which metrics show nothing, and a policy may be random.
_FEW_UPDATES, _MANY_UPDATES = 20, 200
_MAX_OUTSIDE_SUPPORT = 0.1  # probability of target returns beyond one end
_MAX_CLIPPING = 4.0  # mean TD error, as a multiple of the Huber loss's delta
# Largest norm of gradients, as a multiple of the norm to which they are
# clipped. Policy gradients learn well with medians of up to 650, losses of TD
# errors with medians of up to 2.
_MAX_GRADIENT, _MAX_GRADIENT_OF_TD_ERRORS = 1_000.0, 5.0
_MAX_DEAD_UNITS = 0.9  # networks that learn have up to a half
_MIN_EXPLAINED = 0.02  # part of the variance of returns
_MAX_VALUE = 3_000.0  # mean action value; HalfCheetah's reach about 1,000
_MAX_SATURATED = 0.97  # part of the actions
# Smallest entropy in nats, and largest one, as a part of a random policy's.
_MIN_ENTROPY, _MAX_ENTROPY = 0.005, 0.97
# Evaluations with equal returns: of all, and after better ones.
_EQUAL_RETURNS, _LOWEST_RETURNS = 10, 20


def check(e: finding.Evidence) -> Iterator[finding.Finding]:
  """Yields the findings in a learner's metrics and in returns."""
  yield from _check_updates(e)
  yield from _check_values(e)
  yield from _check_policy(e)
  yield from _check_returns(e)
  yield from _check_info(e)


def _check_updates(e: finding.Evidence) -> Iterator[finding.Finding]:
  norm, rate = e.metric("gradient_norm"), e.show("learner.learning_rate")
  if "gradient_norm" in e.metrics and not math.isfinite(norm):
    yield finding.problem(
      "skipped updates",
      "gradients are nan or infinite, and such updates are skipped: lower "
      f"{rate}, or scale the rewards down by config.environment.reward_scale",
    )
  if (dead := e.metric("dead_units")) > _MAX_DEAD_UNITS:
    yield finding.warning(
      "dead units",
      f"{dead:.0%} of a network's hidden units give 0 for a whole batch, so "
      f"they learn nothing: lower {rate}, or set config.network.layer_norm "
      "where the algorithm has it",
    )
  error = e.metric("td_error_abs_mean")
  if e.get("network.head") != "expected":
    error = math.nan  # the delta of other losses has another meaning
  has_delta = e.get("learner.huber_delta") is not None
  largest = _MAX_GRADIENT_OF_TD_ERRORS if has_delta else _MAX_GRADIENT
  for name, value, factor, field in (
    ("clipping", error, _MAX_CLIPPING, "learner.huber_delta"),
    ("gradients", norm, largest, "learner.max_gradient_norm"),
  ):
    if factor * (e.get(field) or math.inf) < value < math.inf:
      yield finding.warning(
        name,
        f"{value:.3g} on average is clipped at {e.show(field)}, so rare "
        "results count no more than others: raise it, or scale the rewards "
        "down by config.environment.reward_scale or "
        "config.normalization.rewards",
      )


def _check_values(e: finding.Evidence) -> Iterator[finding.Finding]:
  below, above = e.metric("below_support"), e.metric("above_support")
  if (outside := max(below, above)) > _MAX_OUTSIDE_SUPPORT:
    side, end = ("below", "lowest") if below > above else ("above", "highest")
    yield finding.warning(
      "support",
      f"{outside:.0%} of the target returns are {side} the support, so their "
      f"values can't be learned: set {e.show(f'network.{end}_return')} to the "
      f"task's {end} return, or lower config.environment.reward_scale",
    )
  explained = e.metric("explained_variance")
  if explained < _MIN_EXPLAINED and e.status.trainer_steps >= _FEW_UPDATES:
    yield finding.warning(
      "values",
      f"values explain {max(0.0, explained):.0%} of the variance of the "
      "returns, so advantages are mostly noise: normalize observations and "
      f"rewards, or raise {e.show('learner.learning_rate')}",
    )
  # The losses of other heads do not grow with the values.
  value = abs(e.metric("q_mean"))
  if e.get("learner.huber_delta") is None and value > _MAX_VALUE:
    yield finding.warning(
      "large values",
      f"action values of the size {value:.3g} take a network long to reach, or "
      f"diverge: lower {e.show('learner.learning_rate')}, or scale the rewards "
      "down by config.environment.reward_scale or config.normalization.rewards",
    )


def _check_policy(e: finding.Evidence) -> Iterator[finding.Finding]:
  if e.status.trainer_steps < _MANY_UPDATES:
    return
  if (share := e.metric("saturated_actions")) > _MAX_SATURATED:
    yield finding.warning(
      "saturated actions",
      f"{share:.0%} of the policy's actions are at their limits, where it "
      f"learns little: lower {e.show('learner.learning_rate')}, or scale the "
      "rewards down",
    )
  entropy, weight = e.metric("entropy"), e.get("learner.entropy_weight")
  actions = getattr(e.probe and e.probe.spec.actions, "num_values", None)
  if weight is None or actions is None:
    return
  is_random = entropy > _MAX_ENTROPY * math.log(actions)
  if is_random or entropy < _MIN_ENTROPY:
    remedy = "nearly random: lower" if is_random else "too little: raise"
    yield finding.warning(
      "entropy",
      f"the policy's entropy of {entropy:.2g} nats is {remedy} "
      f"{e.show('learner.entropy_weight')}",
    )


def _check_returns(e: finding.Evidence) -> Iterator[finding.Finding]:
  if not e.returns:
    return
  returns, lowest, highest = [*e.returns], min(e.returns), max(e.returns)
  last, trained = returns[-_EQUAL_RETURNS:], e.status.training_return
  if (
    trained is not None
    and len(last) == _EQUAL_RETURNS
    and trained - max(last) > max(1.0, 0.5 * abs(max(last)))
    and not base.has_evaluation_environment(e.config)
  ):
    yield finding.warning(
      "greedy evaluations",
      f"training episodes have a mean return of {trained:g}, and the last "
      f"{len(last)} evaluations at most {max(last):g}: set "
      "config.evaluation.policy='sampled' if the policy needs its randomness",
    )
    return
  count = _LOWEST_RETURNS if highest > lowest else _EQUAL_RETURNS
  # Of a longer run, the first evaluations are no longer known.
  is_known = highest > lowest or len(returns) < base.RETURNS_KEPT
  if is_known and returns[-count:] == [lowest] * count:
    yield finding.warning(
      "equal returns",
      f"the last {count} evaluations had a mean return of {lowest:g}, the "
      "lowest so far: raise the exploration, its noise or config.bonus.weight, "
      f"lower {e.show('learner.learning_rate')}, or reward progress",
    )


def _check_info(e: finding.Evidence) -> Iterator[finding.Finding]:
  target, _ = base.parse_info_target(e.config.limits.target_info)
  names = {*e.config.evaluation.info, *([target] if target else [])}
  missing = sorted(names - e.status.evaluation.info.keys())
  if missing and e.status.evaluation.episodes:
    yield finding.warning(
      "info",
      f"infos at the end of an evaluation's episodes lack {missing} as "
      "numbers: return them in each episode's last step, or correct "
      "config.evaluation.info and config.limits.target_info",
    )
