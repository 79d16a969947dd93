"""Advice: sentences about configs whose values can't be learned well.

The run continues: the sentences explain to the user why it may learn nothing.
"""

import math
import time
import typing
from collections.abc import Callable, Mapping, Sequence

import ml_collections

from slipway.configs import base, fields
from slipway.launch.control import limits


class _Measurements(typing.NamedTuple):
  """What a run has measured; the attributes are those of `Advisor.update`."""

  metrics: Mapping[str, float | None]
  returns: Sequence[float]
  info: Mapping[str, float] | None
  training_return: float | None


# Function that returns a sentence about a config and its run, or None.
_Rule = Callable[[ml_collections.ConfigDict, _Measurements], str | None]

# Seconds for which a rule about metrics must have advice before it is given.
_AFTER_S = 10.0
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
# Smallest part of the variance of returns that values should explain, and the
# seconds that they may take until then.
_MIN_EXPLAINED = 0.02
_VALUES_AFTER_S = 30.0
# Largest mean action value of a squared loss. HalfCheetah's reach about 1,000.
_MAX_VALUE = 3_000.0
# Smallest difference of mean returns that a learner can see. An evaluation of
# 20 episodes with one reward of 1 has 0.05.
_MIN_SPREAD = 0.04
# Number of evaluations after which equal returns cause advice. With more, it
# would be late where evaluations are minutes apart.
_EQUAL_RETURNS = 10
# The same after evaluations with higher returns. A policy may get worse for a
# while before it gets better.
_LOWEST_RETURNS = 20


class Advisor:
  """Finds advice in the metrics that the trainer reports.

  ```python
  advisor = Advisor(config)
  advisor.update({'td_error_abs_mean': 12.0})
  advisor.sentences  # [] at first, then the sentences of the whole run
  ```

  Attributes:
    sentences: the advice so far, one sentence per cause.
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Starts without advice for a run with a valid config."""
    self._config = config
    # Monotonic seconds since which each rule has advice without a break.
    self._since_s: dict[_Rule, float] = {}
    self._given: set[_Rule] = set()  # rules whose sentence has been given
    self.sentences: list[str] = []

  def update(
    self,
    metrics: Mapping[str, float | None],
    returns: Sequence[float] = (),
    info: Mapping[str, float] | None = None,
    training_return: float | None = None,
  ) -> None:
    """Records measurements, and adds the sentence of each new cause.

    Args:
      metrics: metrics of the learner's newest update, by name.
      returns: mean returns of the last `base.RETURNS_KEPT` evaluations.
      info: the last evaluation's mean of each number of `evaluation.info` that
        its episodes had; None without an evaluation.
      training_return: mean return of the workers' last episodes, or None.
    """
    if base.has_evaluation_environment(self._config):
      training_return = None  # of another task than the evaluations
    measured = _Measurements(metrics, returns, info, training_return)
    now_s = time.monotonic()
    for rule, after_s in _RULES.items():
      sentence = rule(self._config, measured)
      if sentence is None:
        self._since_s.pop(rule, None)
        continue
      since_s = self._since_s.setdefault(rule, now_s)
      if now_s - since_s >= after_s and rule not in self._given:
        self._given.add(rule)
        self.sentences.append(sentence)


def _advise_on_support(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if many returns are outside a categorical head's support."""
  below = measured.metrics.get("below_support")
  above = measured.metrics.get("above_support")
  if below is None or above is None:
    return None
  if not max(below, above) > _MAX_OUTSIDE_SUPPORT:
    return None
  lowest, highest = "lowest_return", "highest_return"
  side, extreme, field, other = (
    ("below", "lowest", lowest, highest)
    if below > above
    else ("above", "highest", highest, lowest)
  )
  outside = f"{max(below, above):.0%} of the target returns are {side} "
  if not math.isfinite(config.network[field]):
    return (
      f"{outside}all atoms, so their values can't be learned: lower config."
      "environment.reward_scale="
      f"{config.environment.reward_scale:g}"
    )
  return (
    f"{outside}the support, config.network.{field}={config.network[field]:g}, "
    f"so their values can't be learned: set it to the task's {extreme} "
    f"discounted return, and check {other}={config.network[other]:g}, too; "
    "-inf and inf are for returns of any size"
  )


def _advise_on_clipping(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if the Huber loss of action values clips most TD errors."""
  error = measured.metrics.get("td_error_abs_mean")
  delta = fields.get(config, "learner.huber_delta")
  # Quantile losses, and those of rescaled values, have another delta.
  if fields.get(config, "network.head") != "expected" or delta is None:
    return None
  if error is None or not error > _MAX_CLIPPING * delta:
    return None
  return (
    f"TD errors of {error:.3g} on average are clipped at config.learner."
    f"huber_delta={delta:g}, so values become medians, which ignore rare "
    "failures: raise it to the size of the task's returns"
  )


def _advise_on_skipped_updates(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if the newest update's gradients are nan or infinite."""
  norm = measured.metrics.get("gradient_norm")
  if norm is None or math.isfinite(norm):
    return None
  return (
    "gradients are nan or infinite, and such updates are skipped, so the run "
    "may learn nothing more: lower config.learner.learning_rate="
    f"{config.learner.learning_rate:g}, scale the rewards down by "
    "config.environment.reward_scale, or check a loss of your own"
  )


def _advise_on_gradients(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if nearly all gradients are scaled down to their limit."""
  norm = measured.metrics.get("gradient_norm")
  limit = fields.get(config, "learner.max_gradient_norm")
  has_td_errors = fields.get(config, "learner.huber_delta") is not None
  factor = _MAX_GRADIENT_OF_TD_ERRORS if has_td_errors else _MAX_GRADIENT
  if norm is None or limit is None or not factor * limit < norm < math.inf:
    return None
  return (
    f"gradients have a norm of {norm:.3g}, and are clipped at config.learner."
    f"max_gradient_norm={limit:g}, so that batches with rare results count no "
    "more than others: raise it, or scale the returns to the order of 1 to 100 "
    "by config.environment.reward_scale or config.normalization.rewards"
  )


def _advise_on_dead_units(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if hardly any hidden unit depends on the observations."""
  dead = measured.metrics.get("dead_units")
  if dead is None or not dead > _MAX_DEAD_UNITS:
    return None
  # The actor-critic family's 'all' is for its critics, and the policy's units
  # may be the dead ones.
  best = "all" if fields.get(config, "network.critics") is None else "first"
  has_no_norm = fields.get(config, "network.layer_norm") == "none"
  return (
    f"{dead:.0%} of a network's hidden units give 0 for a whole batch, so they "
    "learn nothing, and neither do the layers before them: lower config."
    f"learner.learning_rate={config.learner.learning_rate:g}"
    + (f", or set config.network.layer_norm={best!r}" if has_no_norm else "")
  )


def _advise_on_equal_returns(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if the newest evaluations have one return, the lowest."""
  returns = measured.returns
  target = limits.lowest_accepted(config.limits.target_return)
  if not returns or returns[-1] >= target:
    return None
  if _acts_worse_greedily(measured):
    return None  # another rule explains it
  last, lowest = returns[-1], min(returns)
  if lowest != max(returns):
    tail = returns[-_LOWEST_RETURNS:]
    if len(tail) < _LOWEST_RETURNS or {*tail} != {lowest}:
      return None
    return (
      f"the last {_LOWEST_RETURNS} evaluations had a mean return of {last:g}, "
      "the lowest so far, so the policy may no longer try anything else: raise "
      "the exploration or its noise, or lower config.learner.learning_rate="
      f"{config.learner.learning_rate:g}"
    )
  # Of a longer run, the first evaluations are no longer known.
  if not _EQUAL_RETURNS <= len(returns) < base.RETURNS_KEPT:
    return None
  # Where observations are tiny numbers, networks hardly see their changes.
  is_vector = fields.get(config, "network.torso") == "mlp"
  unset = _find_unset(config, "observations") if is_vector else []
  if fields.get(config, "bonus.kind") == "none":
    unset.append("config.bonus.kind='rnd'")
  return (
    f"all {len(returns)} evaluations so far had a mean return of {last:g}, so "
    "the policy may never have seen a better one: raise the exploration or its "
    "noise, "
    + (f"set {' or '.join(unset)}, " if unset else "")
    + "or let the environment reward progress"
  )


def _acts_worse_greedily(measured: _Measurements) -> bool:
  """Returns whether all evaluations are far below the training's episodes."""
  returns, trained = measured.returns, measured.training_return
  if trained is None or len(returns) < _EQUAL_RETURNS:
    return False
  best = max(returns[-_EQUAL_RETURNS:])
  return trained - best > max(1.0, 0.5 * abs(best))


def _advise_on_greedy_evaluations(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if the workers' episodes are far better than evaluations."""
  if not _acts_worse_greedily(measured):
    return None
  if fields.get(config, "evaluation.policy") == "greedy":
    remedy = (
      "set config.evaluation.policy='sampled', if the policy needs its "
      "randomness where several states look alike"
    )
  else:
    remedy = (
      "check that environments of the evaluator have the same task, and that "
      "exploration does not do the work of the policy"
    )
  return (
    f"training episodes have a mean return of {measured.training_return:g}, "
    f"and the last {_EQUAL_RETURNS} evaluations one of "
    f"{max(measured.returns[-_EQUAL_RETURNS:]):g} at most: {remedy}"
  )


def _advise_on_values(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if a network's values say nothing about the returns."""
  explained = measured.metrics.get("explained_variance")
  if explained is None or not explained < _MIN_EXPLAINED:
    return None
  unset = _find_unset(config, "observations", "rewards")
  return (
    f"values explain {max(0.0, explained):.0%} of the variance of the returns, "
    "so advantages are mostly noise: "
    + (f"set {' and '.join(unset)}, " if unset else "")
    + "raise config.learner.learning_rate="
    f"{config.learner.learning_rate:g}, or observe what the rewards depend on"
  )


def _advise_on_large_values(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if action values are too large for a network's outputs."""
  value = measured.metrics.get("q_mean")
  # The losses of other heads do not grow with the values.
  has_mse = fields.get(config, "learner.huber_delta") is None
  if value is None or not has_mse or not abs(value) > _MAX_VALUE:
    return None
  return (
    f"action values of {value:.3g} on average take a network long to reach, "
    "and their errors drown the policy's loss: set "
    "config.normalization.rewards=True, or scale the returns to the order of 1 "
    "to 100 by config.environment.reward_scale="
    f"{config.environment.reward_scale:g}"
  )


def _advise_on_small_rewards(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if evaluations differ by next to nothing."""
  returns = measured.returns
  if len(returns) < _EQUAL_RETURNS:
    return None
  spread = max(returns) - min(returns)
  if not 0.0 < spread < _MIN_SPREAD:
    return None
  if fields.get(config, "normalization.rewards") is not False:
    return None
  return (
    f"the last {len(returns)} evaluations have mean returns between "
    f"{min(returns):.3g} and {max(returns):.3g}, whose differences are too "
    "small beside entropy and noise: set config.normalization.rewards=True, or "
    "raise config.environment.reward_scale="
    f"{config.environment.reward_scale:g}"
  )


def _find_unset(config: ml_collections.ConfigDict, *names: str) -> list[str]:
  """Returns the normalizations among `names` that a config could turn on."""
  return [
    f"config.normalization.{name}=True"
    for name in names
    if fields.get(config, f"normalization.{name}") is False
  ]


def _advise_on_missing_info(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if no episode of an evaluation had a number to record."""
  if measured.info is None:
    return None
  target, _ = base.parse_info_target(config.limits.target_info)
  wanted = (x for x in config.evaluation.info if x != target)
  missing = [x for x in wanted if x not in measured.info]
  if not missing:
    return None
  return (
    f"no episode of an evaluation ended with {' or '.join(map(repr, missing))} "
    "as a number in its info, so there is nothing to record: set config."
    "evaluation.info to names that the info of an episode's last step has"
  )


def _advise_on_missing_target(
  config: ml_collections.ConfigDict, measured: _Measurements
) -> str | None:
  """Returns advice if an evaluation can't reach the target of an info."""
  name, _ = base.parse_info_target(config.limits.target_info)
  if not name or measured.info is None or name in measured.info:
    return None
  return (
    f"not every episode of an evaluation ended with {name!r} as a number in "
    f"its info, so it can't reach config.limits.target_info="
    f"{config.limits.target_info!r}, and the run does not end by it: return "
    "the number in the last step of each episode, or name another"
  )


# Seconds for which each rule must have advice before it is given.
_RULES: dict[_Rule, float] = {
  _advise_on_skipped_updates: 0.0,
  _advise_on_support: _AFTER_S,
  _advise_on_clipping: _AFTER_S,
  _advise_on_gradients: _AFTER_S,
  _advise_on_dead_units: _AFTER_S,
  _advise_on_values: _VALUES_AFTER_S,
  _advise_on_large_values: _AFTER_S,
  _advise_on_equal_returns: 0.0,  # ten evaluations are long enough
  _advise_on_greedy_evaluations: 0.0,
  _advise_on_small_rewards: 0.0,
  _advise_on_missing_info: 0.0,  # an evaluation has several episodes
  _advise_on_missing_target: 0.0,
}
