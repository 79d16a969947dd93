"""Table: applies all checks of a run.

To add one, `yield` a finding in the module of its subject; `slipway doctor`
then has it, and live advice, too, if the module is `symptoms`.
"""

from slipway.launch.diagnosis import (
  environment,
  finding,
  running,
  settings,
  symptoms,
)


def find(evidence: finding.Evidence) -> list[finding.Finding]:
  """Returns the findings of all checks, the worst first.

  Warnings are left out if the run has reached its target.
  """
  found = [
    # Faults of the environment and settings cause what the symptoms show.
    *running.check(evidence),
    *environment.check(evidence),
    *settings.check(evidence),
    *symptoms.check(evidence),
  ]
  if evidence.is_solved:
    found = [x for x in found if x.severity == finding.PROBLEM]
  return sorted(found, key=lambda x: x.severity != finding.PROBLEM)
