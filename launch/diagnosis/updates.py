"""Checks of the learner's metrics: gradients, values, units and policies."""

import math

import numpy as np

from slipway.launch.diagnosis import finding

CHECKS = finding.Checks()

# Largest mean probability of target returns beyond one end of the support.
_MAX_OUTSIDE_SUPPORT = 0.1
# Largest mean absolute TD error, as a multiple of the Huber loss's delta.
_MAX_CLIPPING = 4.0
# Largest norm of the gradients, as a multiple of the norm to which they are
# clipped. Policy gradients learn well with medians of up to 650. Losses of TD
# errors have medians of up to 2 in presets, and single updates above 5.
_MAX_GRADIENT = 1_000.0
_MAX_GRADIENT_OF_TD_ERRORS = 5.0
# Largest part of the hidden units that give 0 for a whole batch. Networks that
# learn have up to a half.
_MAX_DEAD_UNITS = 0.9
# Smallest part of the variance of returns that values should explain.
_MIN_EXPLAINED = 0.02
_MANY_BATCHES = 20
# Updates after which a policy should be neither random nor at its limits.
_MANY_UPDATES = 200
_MAX_SATURATED = 0.97  # part of the actions
# Smallest entropy in nats, and largest one, as a part of a random policy's.
_MIN_ENTROPY, _MAX_ENTROPY = 0.005, 0.97
# Largest size of values, as a multiple of what rewards allow.
_MAX_OVERESTIMATION = 3.0
# Largest mean action value of a squared loss. HalfCheetah's reach about 1,000.
_MAX_VALUE = 3_000.0


@CHECKS.add("skipped updates", finding.PROBLEM, live_after_s=0.0)
def _check_skipped_updates(e: finding.Evidence) -> str | None:
  norm = e.metrics.get("gradient_norm")
  if norm is None or math.isfinite(norm):
    return None
  return (
    "gradients are nan or infinite, and such updates are skipped, so the run "
    f"may learn nothing more: lower {e.show('learner.learning_rate')}, scale "
    "the rewards down by config.environment.reward_scale, or check a loss of "
    "your own"
  )


@CHECKS.add("support", finding.WARNING, live_after_s=10.0)
def _check_support(e: finding.Evidence) -> str | None:
  below, above = e.metric("below_support"), e.metric("above_support")
  if not (outside := max(below, above)) > _MAX_OUTSIDE_SUPPORT:
    return None
  lowest, highest = "network.lowest_return", "network.highest_return"
  side, extreme, field, other = (
    ("below", "lowest", lowest, highest)
    if below > above
    else ("above", "highest", highest, lowest)
  )
  return f"{outside:.0%} of the target returns are {side} " + (
    f"the support, {e.show(field)}, so their values can't be learned: set it "
    f"to the task's {extreme} discounted return, and check {e.show(other)}, "
    "too; -inf and inf are for returns of any size"
    if math.isfinite(e.get(field))
    else "all atoms, so their values can't be learned: lower "
    f"{e.show('environment.reward_scale')}"
  )


@CHECKS.add("clipping", finding.WARNING, live_after_s=10.0)
def _check_clipping(e: finding.Evidence) -> str | None:
  delta, error = e.get("learner.huber_delta"), e.metric("td_error_abs_mean")
  # Quantile losses, and those of rescaled values, have another delta.
  if delta is None or e.get("network.head") != "expected":
    return None
  if not error > _MAX_CLIPPING * delta:
    return None
  return (
    f"TD errors of {error:.3g} on average are clipped at config.learner."
    f"huber_delta={delta:g}, so values become medians, which ignore rare "
    "failures: raise it to the size of the task's returns"
  )


@CHECKS.add("gradients", finding.WARNING, live_after_s=10.0)
def _check_gradients(e: finding.Evidence) -> str | None:
  norm, limit = e.metric("gradient_norm"), e.get("learner.max_gradient_norm")
  has_delta = e.get("learner.huber_delta") is not None
  factor = _MAX_GRADIENT_OF_TD_ERRORS if has_delta else _MAX_GRADIENT
  if limit is None or not factor * limit < norm < math.inf:
    return None
  return (
    f"gradients have a norm of {norm:.3g}, and are clipped at config.learner."
    f"max_gradient_norm={limit:g}, so that batches with rare results count "
    "no more than others: raise it, or scale the returns to the order of 1 "
    "to 100 by config.environment.reward_scale or "
    "config.normalization.rewards"
  )


@CHECKS.add("dead units", finding.WARNING, live_after_s=10.0)
def _check_dead_units(e: finding.Evidence) -> str | None:
  if not (dead := e.metric("dead_units")) > _MAX_DEAD_UNITS:
    return None
  # The actor-critic family's 'all' is for its critics, and the policy's units
  # may be the dead ones.
  best = "first" if e.get("network.critics") is not None else "all"
  has_no_norm = e.get("network.layer_norm") == "none"
  return (
    f"{dead:.0%} of a network's hidden units give 0 for a whole batch, so "
    "they learn nothing, and neither do the layers before them: lower "
    f"{e.show('learner.learning_rate')}"
    + (f", or set config.network.layer_norm={best!r}" if has_no_norm else "")
  )


@CHECKS.add("values", finding.WARNING, live_after_s=30.0)
def _check_values(e: finding.Evidence) -> str | None:
  if not (explained := e.metric("explained_variance")) < _MIN_EXPLAINED:
    return None
  if e.status is not None and e.updates < _MANY_BATCHES:
    return None  # values take some batches
  unset = e.list_unset_norms("observations", "rewards")
  return (
    f"values explain {max(0.0, explained):.0%} of the variance of the "
    "returns, so advantages are mostly noise: "
    + (f"set {' and '.join(unset)}, " if unset else "")
    + f"raise {e.show('learner.learning_rate')}, or observe what the rewards "
    "depend on"
  )


@CHECKS.add("large values", finding.WARNING, live_after_s=10.0)
def _check_large_values(e: finding.Evidence) -> str | None:
  # The losses of other heads do not grow with the values.
  has_mse = e.get("learner.huber_delta") is None
  if not (has_mse and abs(value := e.metric("q_mean")) > _MAX_VALUE):
    return None
  return (
    f"action values of {value:.3g} on average take a network long to reach, "
    "and their errors drown the policy's loss: set "
    "config.normalization.rewards=True, or scale the returns to the order of "
    f"1 to 100 by {e.show('environment.reward_scale')}"
  )


@CHECKS.add("diverging values", finding.WARNING)
def _check_diverging_values(e: finding.Evidence) -> str | None:
  value, discount = e.metric("q_mean"), e.get("adder.discount")
  # Other values have another scale, or other rewards.
  is_raw = not e.get("normalization.rewards") and e.get("agent") != "r2d2"
  if e.probe is None or not is_raw or e.get("bonus.kind") not in ("none", None):
    return None
  if discount is None or not e.probe.rewards.size:
    return None
  steps = min(1 / max(1 - discount, 1e-4), np.nanmax([e.episode_steps, 1.0]))
  seen = [float(np.abs(e.probe.rewards).max()) * steps, *map(abs, e.returns)]
  limit = _MAX_OVERESTIMATION * max(*seen, abs(e.training_return or 0.0))
  if not abs(value) > limit > 0:
    return None
  return (
    f"action values of {value:.3g} on average are far larger than rewards "
    f"allow, so they diverge: lower {e.show('learner.learning_rate')}, or let "
    "the target network follow more slowly"
  )


@CHECKS.add("saturated actions", finding.WARNING)
def _check_saturated_actions(e: finding.Evidence) -> str | None:
  share = e.metric("saturated_actions")
  if not share > _MAX_SATURATED or e.updates < _MANY_UPDATES:
    return None
  return (
    f"{share:.0%} of the policy's actions are at their limits, where it learns "
    f"little: lower {e.show('learner.learning_rate')}, scale the rewards down, "
    "or set config.normalization.observations=True"
  )


@CHECKS.add("entropy", finding.WARNING)
def _check_entropy(e: finding.Evidence) -> str | None:
  entropy, weight = e.metric("entropy"), e.get("learner.entropy_weight")
  actions = getattr(e.probe and e.probe.spec.actions, "num_values", None)
  if weight is None or actions is None or e.updates < _MANY_UPDATES:
    return None
  if entropy < _MIN_ENTROPY:
    return (
      f"the policy has an entropy of {entropy:.2g} nats, so it no longer tries "
      f"other actions: raise {e.show('learner.entropy_weight')} to 0.01, or "
      f"lower {e.show('learner.learning_rate')}"
    )
  if entropy > _MAX_ENTROPY * math.log(actions):
    return (
      f"the policy is nearly random after {e.updates:,} updates: lower "
      f"{e.show('learner.entropy_weight')}, or raise "
      f"{e.show('learner.learning_rate')}"
    )
  return None
