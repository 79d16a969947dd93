"""Stages: the order in which a run's nodes are ended, and the time for it."""

from collections.abc import Iterable

# The roles in the order of stopping. Nodes that write to a server or read from
# it end before the server, and the trainer writes the last snapshot. A proxy
# drains its workers.
STAGES: tuple[frozenset[str], ...] = (
  frozenset({"worker", "evaluator", "proxy"}),
  frozenset({"trainer"}),
  frozenset({"replay"}),
)
LAST = len(STAGES) - 1  # index of the last stage

# Seconds that the trainer may take for the run's last snapshot: quickly, if the
# processes may be killed soon (Docker does so 10 s after a signal), or not.
_LAST_SNAPSHOT_S = {True: 4.0, False: 600.0}
# Seconds that a node may take to end, by its stage. The trainer has those for
# the last snapshot in addition.
_GRACE_S = (4.5, 1.0, 1.0)


def last_snapshot_s(is_quick: bool) -> float:
  """Returns the seconds that the last snapshot may take, with its upload.

  Args:
    is_quick: whether a signal or a failure stops the run.
  """
  return _LAST_SNAPSHOT_S[is_quick]


def find_stage(live_roles: Iterable[str]) -> int:
  """Returns the index of the current stage: the first that has a live node.

  Without live nodes, it is the last one.

  Args:
    live_roles: roles of the nodes that have not ended.
  """
  roles = set(live_roles)
  return next((i for i, stage in enumerate(STAGES) if roles & stage), LAST)


def grace_s(stage: int, is_quick: bool) -> float:
  """Returns the seconds that the nodes of a stage may take to end.

  Args:
    stage: index in `STAGES`.
    is_quick: as in `last_snapshot_s`.
  """
  is_trainer = "trainer" in STAGES[stage]
  return _GRACE_S[stage] + is_trainer * last_snapshot_s(is_quick)
