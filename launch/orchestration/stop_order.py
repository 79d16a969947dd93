"""Stop order: the order in which a run's nodes are stopped, role by role."""

import typing
from collections.abc import Callable


class Group(typing.NamedTuple):
  """Roles whose nodes are stopped at the same time.

  Attributes:
    roles: roles of the group, such as 'worker'.
    grace_s: grace period in seconds. After it, the next group is stopped even
      if nodes of this group have not ended.
  """

  roles: tuple[str, ...]
  grace_s: float


# Seconds that the last snapshot may take.
_LAST_SNAPSHOT_S = 600.0
_QUICK_LAST_SNAPSHOT_S = 4.0
# The groups in the order of stopping. Nodes that write to a server or read from
# it end before the server. A proxy drains its workers, and the trainer writes
# the last snapshot. The sum of all grace periods is below the 10 s in which a
# run has to end after a signal. They do not pass during a last snapshot that
# may take longer.
GROUPS = (
  Group(("worker", "evaluator", "proxy"), grace_s=4.5),
  Group(("trainer",), grace_s=_QUICK_LAST_SNAPSHOT_S),
  Group(("replay",), grace_s=1.0),
)
# All roles whose end a stopping run waits for, in the order of stopping.
ROLES = tuple(role for group in GROUPS for role in group.roles)
# The role of external processes. They stop with the first group, but no group
# waits for them, because their own loops may notice the stop late.
EXTERNAL = "external"
# Seconds of grace after which a run ends even if no node has ended in time.
LONGEST_S = sum(group.grace_s for group in GROUPS)


def last_snapshot_s(stops_quickly: bool) -> float:
  """Returns the seconds that the last snapshot may take, with its upload.

  Args:
    stops_quickly: whether a signal, a failure or the loss of the launcher stops
      the run. Its nodes may be killed soon then: Docker does so 10 s after a
      signal.
  """
  return _QUICK_LAST_SNAPSHOT_S if stops_quickly else _LAST_SNAPSHOT_S


def may_stop(
  role: str, waited_s: float, finished: Callable[[str], bool]
) -> bool:
  """Returns whether the nodes of a role may stop now in a stopping run.

  The result is True once each earlier group has ended or its grace period has
  passed.

  Args:
    role: role of the nodes.
    waited_s: seconds since the first group's grace period began.
    finished: function that returns whether all nodes of a role have ended.

  Raises:
    ValueError: the role has no place in the order.
  """
  if role == EXTERNAL:
    return True
  for group in GROUPS:
    if role in group.roles:
      return True
    waited_s -= group.grace_s  # negative during this group's grace period
    if waited_s < 0 and not all(finished(earlier) for earlier in group.roles):
      return False
  raise ValueError(
    f"role {role!r} has no place in the stop order, so its nodes would never "
    f"be stopped: it must be one of {', '.join(ROLES)}"
  )
