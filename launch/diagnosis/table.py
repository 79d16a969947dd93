"""Table: all checks of a run, the likeliest causes first.

To add one, write a function in the module of its subject, with the decorator
`CHECKS.add`; live advice, `slipway doctor` and its documentation then have it.
"""

from slipway.launch.diagnosis import (
  environment,
  finding,
  returns,
  running,
  settings,
  updates,
)

# Faults of the environment and settings cause what metrics and returns show.
CHECKS: tuple[finding.Check, ...] = (
  *running.CHECKS,
  *environment.CHECKS,
  *settings.CHECKS,
  *updates.CHECKS,
  *returns.CHECKS,
)


def find(evidence: finding.Evidence) -> list[finding.Finding]:
  """Returns the findings of all checks, the worst first.

  Warnings are left out if the run has reached its target.
  """
  found = [found for check in CHECKS if (found := check.find(evidence))]
  if evidence.is_solved:
    found = [x for x in found if x.severity == finding.PROBLEM]
  return sorted(found, key=lambda x: finding.SEVERITIES.index(x.severity))
