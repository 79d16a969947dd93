"""Stop order: the order in which groups of nodes end."""

import typing
from collections.abc import Callable


class Group(typing.NamedTuple):
  """Roles whose nodes are stopped together.

  Attributes:
    roles: roles of the group.
    grace_s: seconds after which the next group no longer waits for this one.
  """

  roles: tuple[str, ...]
  grace_s: float


# Nodes that write to or read from a server end before it. A proxy drains its
# workers; the trainer writes the last snapshot. The sum of all grace periods is
# below the 10 s in which a run has to end.
GROUPS = (
  Group(("worker", "evaluator", "proxy"), grace_s=4.5),
  Group(("trainer",), grace_s=4.0),
  Group(("replay",), grace_s=1.0),
)
ROLES = tuple(role for group in GROUPS for role in group.roles)
# External processes stop with the first group, but no group waits for them,
# because their own loops may notice the stop late.
EXTERNAL = "external"
LONGEST_S = sum(group.grace_s for group in GROUPS)


def may_stop(
  role: str, waited_s: float, finished: Callable[[str], bool]
) -> bool:
  """Returns whether all earlier groups have ended or used up their grace.

  Args:
    role: role of the node that may stop.
    waited_s: seconds since the run began to stop.
    finished: function that returns whether all nodes of a role have ended.

  Raises:
    ValueError: the role has no place in the order.
  """
  if role == EXTERNAL:
    return True
  for group in GROUPS:
    if role in group.roles:
      return True
    waited_s -= group.grace_s
    if waited_s < 0 and not all(finished(before) for before in group.roles):
      return False
  raise ValueError(
    f"role {role!r} has no place in the stop order, so its nodes would never "
    f"be stopped: it must be one of {', '.join(ROLES)}"
  )
