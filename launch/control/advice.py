"""Advice: sentences about configs whose values can't be learned well.

The run continues: the sentences explain to the user why it may learn nothing.
"""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence

import ml_collections

from slipway.configs import base, fields
from slipway.launch.control import limits

# A cause, by a name of it, and the sentence about it.
_Advice = tuple[str, str]

# Seconds for which a cause must last before its advice is given: those of
# metrics, which may be exceptions. Ten evaluations are long enough.
_AFTER_S = {
  "clipping": 10.0,
  "gradients": 10.0,
  "dead units": 10.0,
  "support": 10.0,
  "values": 30.0,
  "large values": 10.0,
}
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
    # Monotonic seconds since which each cause lasts without a break.
    self._since_s: dict[str, float] = {}
    self._given: set[str] = set()  # causes whose sentence has been given
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
    config, now_s = self._config, time.monotonic()
    if base.has_evaluation_environment(config):
      training_return = None  # of another task than the evaluations
    found = dict(
      itertools.chain(
        _advise_on_updates(config, metrics),
        _advise_on_values(config, metrics),
        _advise_on_returns(config, returns, training_return),
        _advise_on_infos(config, info),
      )
    )
    self._since_s = {x: self._since_s.get(x, now_s) for x in found}
    for cause, since_s in self._since_s.items():
      is_due = now_s - since_s >= _AFTER_S.get(cause, 0.0)
      if is_due and cause not in self._given:
        self._given.add(cause)
        self.sentences.append(found[cause])


def _advise_on_updates(
  config: ml_collections.ConfigDict, metrics: Mapping[str, float | None]
) -> Iterator[_Advice]:
  """Yields advice on gradients, TD errors and units of the newest update."""
  rate = f"config.learner.learning_rate={config.learner.learning_rate:g}"
  norm = metrics.get("gradient_norm")
  if norm is not None and not math.isfinite(norm):
    yield (
      "skipped updates",
      "gradients are nan or infinite, and such updates are skipped, so the run "
      f"may learn nothing more: lower {rate}, scale the rewards down by "
      "config.environment.reward_scale, or check a loss of your own",
    )
  delta = fields.get(config, "learner.huber_delta")
  error = _get(metrics, "td_error_abs_mean")
  # Quantile losses, and those of rescaled values, have another delta.
  has_delta = fields.get(config, "network.head") == "expected"
  if has_delta and delta is not None and error > _MAX_CLIPPING * delta:
    yield (
      "clipping",
      f"TD errors of {error:.3g} on average are clipped at config.learner."
      f"huber_delta={delta:g}, so values become medians, which ignore rare "
      "failures: raise it to the size of the task's returns",
    )
  limit = fields.get(config, "learner.max_gradient_norm")
  factor = _MAX_GRADIENT if delta is None else _MAX_GRADIENT_OF_TD_ERRORS
  if norm and limit is not None and factor * limit < norm < math.inf:
    yield (
      "gradients",
      f"gradients have a norm of {norm:.3g}, and are clipped at config.learner."
      f"max_gradient_norm={limit:g}, so that batches with rare results count "
      "no more than others: raise it, or scale the returns to the order of 1 "
      "to 100 by config.environment.reward_scale or "
      "config.normalization.rewards",
    )
  if (dead := _get(metrics, "dead_units")) > _MAX_DEAD_UNITS:
    # The actor-critic family's 'all' is for its critics, and the policy's units
    # may be the dead ones.
    is_critic = fields.get(config, "network.critics") is not None
    best = "first" if is_critic else "all"
    has_no_norm = fields.get(config, "network.layer_norm") == "none"
    yield (
      "dead units",
      f"{dead:.0%} of a network's hidden units give 0 for a whole batch, so "
      f"they learn nothing, and neither do the layers before them: lower {rate}"
      + (f", or set config.network.layer_norm={best!r}" if has_no_norm else ""),
    )


def _advise_on_values(
  config: ml_collections.ConfigDict, metrics: Mapping[str, float | None]
) -> Iterator[_Advice]:
  """Yields advice on values that do not fit the returns."""
  scale = f"config.environment.reward_scale={config.environment.reward_scale:g}"
  below, above = _get(metrics, "below_support"), _get(metrics, "above_support")
  if (outside := max(below, above)) > _MAX_OUTSIDE_SUPPORT:
    lowest, highest = "lowest_return", "highest_return"
    side, extreme, field, other = (
      ("below", "lowest", lowest, highest)
      if below > above
      else ("above", "highest", highest, lowest)
    )
    support = config.network[field]
    yield (
      "support",
      f"{outside:.0%} of the target returns are {side} "
      + (
        f"the support, config.network.{field}={support:g}, so their values "
        f"can't be learned: set it to the task's {extreme} discounted return, "
        f"and check {other}={config.network[other]:g}, too; -inf and inf are "
        "for returns of any size"
        if math.isfinite(support)
        else f"all atoms, so their values can't be learned: lower {scale}"
      ),
    )
  if (explained := _get(metrics, "explained_variance")) < _MIN_EXPLAINED:
    unset = _find_unset(config, "observations", "rewards")
    yield (
      "values",
      f"values explain {max(0.0, explained):.0%} of the variance of the "
      "returns, so advantages are mostly noise: "
      + (f"set {' and '.join(unset)}, " if unset else "")
      + "raise config.learner.learning_rate="
      f"{config.learner.learning_rate:g}, or observe what the rewards depend "
      "on",
    )
  # The losses of other heads do not grow with the values.
  has_mse = fields.get(config, "learner.huber_delta") is None
  if has_mse and abs(value := _get(metrics, "q_mean")) > _MAX_VALUE:
    yield (
      "large values",
      f"action values of {value:.3g} on average take a network long to reach, "
      "and their errors drown the policy's loss: set "
      "config.normalization.rewards=True, or scale the returns to the order of "
      f"1 to 100 by {scale}",
    )


def _advise_on_returns(
  config: ml_collections.ConfigDict,
  returns: Sequence[float],
  training_return: float | None,
) -> Iterator[_Advice]:
  """Yields advice on the mean returns of the newest evaluations."""
  if len(returns) < _EQUAL_RETURNS:
    return
  last, lowest, highest = returns[-1], min(returns), max(returns)
  best = max(returns[-_EQUAL_RETURNS:])
  if training_return is not None and (
    training_return - best > max(1.0, 0.5 * abs(best))
  ):
    yield (
      "greedy evaluations",
      f"training episodes have a mean return of {training_return:g}, and the "
      f"last {_EQUAL_RETURNS} evaluations one of {best:g} at most: "
      + (
        "set config.evaluation.policy='sampled', if the policy needs its "
        "randomness where several states look alike"
        if fields.get(config, "evaluation.policy") == "greedy"
        else "check that environments of the evaluator have the same task, and "
        "that exploration does not do the work of the policy"
      ),
    )
  elif last >= limits.lowest_accepted(config.limits.target_return):
    pass
  # Of a longer run, the first evaluations are no longer known.
  elif lowest == highest and len(returns) < base.RETURNS_KEPT:
    # Where observations are tiny numbers, networks hardly see their changes.
    is_vector = fields.get(config, "network.torso") == "mlp"
    unset = _find_unset(config, "observations") if is_vector else []
    if fields.get(config, "bonus.kind") == "none":
      unset.append("config.bonus.kind='rnd'")
    yield (
      "equal returns",
      f"all {len(returns)} evaluations so far had a mean return of {last:g}, "
      "so the policy may never have seen a better one: raise the exploration "
      "or its noise, "
      + (f"set {' or '.join(unset)}, " if unset else "")
      + "or let the environment reward progress",
    )
  elif lowest < highest and (
    [*returns[-_LOWEST_RETURNS:]] == [lowest] * _LOWEST_RETURNS
  ):
    yield (
      "lowest returns",
      f"the last {_LOWEST_RETURNS} evaluations had a mean return of {last:g}, "
      "the lowest so far, so the policy may no longer try anything else: raise "
      "the exploration or its noise, or lower config.learner.learning_rate="
      f"{config.learner.learning_rate:g}",
    )
  if 0.0 < highest - lowest < _MIN_SPREAD and (
    fields.get(config, "normalization.rewards") is False
  ):
    yield (
      "small rewards",
      f"the last {len(returns)} evaluations have mean returns between "
      f"{lowest:.3g} and {highest:.3g}, whose differences are too small beside "
      "entropy and noise: set config.normalization.rewards=True, or raise "
      f"config.environment.reward_scale={config.environment.reward_scale:g}",
    )


def _get(metrics: Mapping[str, float | None], name: str) -> float:
  """Returns a metric, or nan if it is not known."""
  value = metrics.get(name)
  return math.nan if value is None else value


def _find_unset(config: ml_collections.ConfigDict, *names: str) -> list[str]:
  """Returns the normalizations among `names` that a config could turn on."""
  return [
    f"config.normalization.{name}=True"
    for name in names
    if fields.get(config, f"normalization.{name}") is False
  ]


def _advise_on_infos(
  config: ml_collections.ConfigDict, info: Mapping[str, float] | None
) -> Iterator[_Advice]:
  """Yields advice on numbers that the infos of an evaluation lack."""
  if info is None:
    return
  target, _ = base.parse_info_target(config.limits.target_info)
  names = [x for x in config.evaluation.info if x not in (target, *info)]
  if names:
    yield (
      "info",
      f"no episode of an evaluation ended with {' or '.join(map(repr, names))} "
      "as a number in its info, so there is nothing to record: set config."
      "evaluation.info to names that the info of an episode's last step has",
    )
  if target and target not in info:
    yield (
      "target of infos",
      f"not every episode of an evaluation ended with {target!r} as a number "
      "in its info, so it can't reach config.limits.target_info="
      f"{config.limits.target_info!r}, and the run does not end by it: return "
      "the number in the last step of each episode, or name another",
    )
