"""Advice: sentences about configs whose values can't be learned well.

The run continues: the sentences explain to the user why it may learn nothing.
"""

import time

from slipway.launch.diagnosis import finding, symptoms

_LASTING_S = 10.0  # for which a cause must last


class Advisor:
  """Finds advice in what a live run reports."""

  def __init__(self):
    """Starts without advice."""
    # Monotonic seconds since which each cause lasts without a break.
    self._since_s: dict[str, float] = {}
    self._given: dict[str, str] = {}  # sentences, by their causes

  @property
  def sentences(self) -> list[str]:
    """The advice so far, one sentence per cause."""
    return [*self._given.values()]

  def update(self, evidence: finding.Evidence) -> None:
    """Adds the sentence of each new cause that has lasted for 10 s."""
    now_s = time.monotonic()
    found = {
      x.name: x.sentence
      for x in symptoms.check(evidence)
      if x.severity == finding.PROBLEM or not evidence.is_solved
    }
    self._since_s = {name: self._since_s.get(name, now_s) for name in found}
    for name, since_s in self._since_s.items():
      if now_s - since_s >= _LASTING_S:
        self._given.setdefault(name, found[name])
