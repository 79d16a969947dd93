"""Advice: sentences about configs whose values can't be learned well.

The run continues: the sentences explain to the user why it may learn nothing.
"""

import time
from collections.abc import Callable, Mapping

import ml_collections

from slipway.configs import fields

# Metrics of the learner's newest update, by name.
_Metrics = Mapping[str, float | None]
# Function that returns a sentence about a config and its metrics, or None.
_Rule = Callable[[ml_collections.ConfigDict, _Metrics], str | None]

# Seconds for which a rule must have advice before it is given.
_AFTER_S = 10.0
# Largest mean probability of target returns outside the support.
_MAX_OUTSIDE_SUPPORT = 0.1
# Largest mean absolute TD error, as a multiple of the Huber loss's delta.
_MAX_CLIPPING = 4.0


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

  def update(self, metrics: _Metrics) -> None:
    """Records metrics, and adds the sentence of each new cause.

    Args:
      metrics: metrics of the learner's newest update, by name.
    """
    now_s = time.monotonic()
    for rule in _RULES:
      sentence = rule(self._config, metrics)
      if sentence is None:
        self._since_s.pop(rule, None)
        continue
      since_s = self._since_s.setdefault(rule, now_s)
      if now_s - since_s >= _AFTER_S and rule not in self._given:
        self._given.add(rule)
        self.sentences.append(sentence)


def _advise_on_support(
  config: ml_collections.ConfigDict, metrics: _Metrics
) -> str | None:
  """Returns advice if many returns are outside a categorical head's support."""
  outside = metrics.get("outside_support")
  if outside is None or not outside > _MAX_OUTSIDE_SUPPORT:
    return None
  network = config.network
  return (
    f"{outside:.0%} of the target returns are outside the support, config."
    f"network.lowest_return={network.lowest_return:g} to highest_return="
    f"{network.highest_return:g}, so their values can't be learned: set both "
    "to the task's lowest and highest discounted returns"
  )


def _advise_on_clipping(
  config: ml_collections.ConfigDict, metrics: _Metrics
) -> str | None:
  """Returns advice if the Huber loss of action values clips most TD errors."""
  error = metrics.get("td_error_abs_mean")
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


_RULES: tuple[_Rule, ...] = (_advise_on_support, _advise_on_clipping)
