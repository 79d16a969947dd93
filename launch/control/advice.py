"""Advice: sentences about configs whose values can't be learned well.

The run continues: the sentences explain to the user why it may learn nothing.
They are those of the checks in `launch/diagnosis/` that suit a live run.
"""

import time
from collections.abc import Mapping, Sequence

import ml_collections

from slipway.launch.control import limits
from slipway.launch.diagnosis import finding, table


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

    The arguments are those of `finding.Evidence`.
    """
    now_s = time.monotonic()
    evidence = finding.Evidence(
      self._config,
      metrics,
      returns,
      info=info,
      training_return=training_return,
      is_solved=limits.count_at_targets(self._config.limits, returns, [])[0]
      > 0,
    )
    since_s = {}
    for check in table.CHECKS:
      if check.live_after_s is None or not (found := check.find(evidence)):
        continue
      name = check.name
      since_s[name] = self._since_s.get(name, now_s)
      is_due = now_s - since_s[name] >= check.live_after_s
      if is_due and name not in self._given:
        self._given.add(name)
        self.sentences.append(found.sentence)
    self._since_s = since_s
