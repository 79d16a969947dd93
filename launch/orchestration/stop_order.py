"""The stop order: which nodes end before which others."""

import typing
from collections.abc import Callable


class Group(typing.NamedTuple):
  """Roles that are stopped together.

  Attributes:
    roles: of the nodes.
    grace_s: seconds after which the next group no longer waits for this one.
  """

  roles: tuple[str, ...]
  grace_s: float


# Writers end before what they write to, readers before what they read from. A
# proxy drains its workers itself; the trainer writes the last snapshot. All
# together are below the 10 s within which a run has to end.
GROUPS = (
  Group(("worker", "evaluator", "proxy"), grace_s=4.5),
  Group(("trainer",), grace_s=4.0),
  Group(("replay",), grace_s=1.0),
)
ROLES = tuple(role for group in GROUPS for role in group.roles)
# External processes end with the first group, and no group waits for them:
# their own loops may not notice the stop for long.
EXTERNAL = "external"
LONGEST_S = sum(group.grace_s for group in GROUPS)


def may_stop(
  role: str, waited_s: float, finished: Callable[[str], bool]
) -> bool:
  """Returns whether the groups before a role's have ended, or had their time.

  Args:
    role: of the node that may stop.
    waited_s: seconds since the run began to stop.
    finished: whether all nodes of a role have ended.

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
