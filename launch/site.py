"""Site: one machine's part of a run, and how it reaches the other parts."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import ml_collections

from slipway.launch.processes import private_network
from slipway.replay.transport import certificates

# A node that others need comes before those.
_STARTED = ("control", "replay", "trainer", "proxy", "worker", "evaluator")


@dataclasses.dataclass(frozen=True)
class Site:
  """What of a run is on one machine.

  Attributes:
    nodes: role and index of those that run here, those that others of them need
      first.
    expected: how many nodes of each role the whole run has, the control node
      left out.
    memory_dir: folder in memory of this machine that belongs to the run.
    first_worker: index of its first worker in the whole run.
    control_elsewhere: whether the control node runs on another machine; then
      this machine's gateway serves its socket.
    replay_elsewhere: whether the TrajectoryManagers run on another machine;
      where, the endpoints in memory_dir say.
    identity: of this machine, for mutual TLS with others; None: plain TCP.
    network: for the processes that serve tables here or read them; None: that
      of the machine, whose other users can then reach the tables.
  """

  nodes: tuple[tuple[str, int], ...]
  expected: Mapping[str, int]
  memory_dir: str
  first_worker: int = 0
  control_elsewhere: bool = False
  replay_elsewhere: bool = False
  identity: certificates.Identity | None = None
  network: private_network.PrivateNetwork | None = None

  @classmethod
  def whole(
    cls,
    config: ml_collections.ConfigDict,
    memory_dir: str,
    network: private_network.PrivateNetwork | None = None,
  ) -> "Site":
    """A run that is on one machine.

    Args:
      config: the whole config.
      memory_dir: see the class.
      network: see the class.
    """
    expected = expected_nodes(config)
    nodes = nodes_of(expected | {"control": 1})
    return cls(nodes, expected, memory_dir, network=network)


def nodes_of(
  count: Mapping[str, int], first: Mapping[str, int] = MappingProxyType({})
) -> tuple[tuple[str, int], ...]:
  """Role and index of so many nodes, in the order of starting.

  Args:
    count: of nodes of each role; one that is left out has none.
    first: index of the first one of a role; by default 0.
  """
  return tuple(
    (role, first.get(role, 0) + index)
    for role in _STARTED
    for index in range(count.get(role, 0))
  )


def replay_servers(config: ml_collections.ConfigDict) -> int:
  """Returns how many TrajectoryManagers a run has.

  Without a table there is one, for the variables.
  """
  return config.replay.shards if "replay" in config else 1


def expected_nodes(config: ml_collections.ConfigDict) -> dict[str, int]:
  """How many nodes of each role a machine has that has all of a run.

  The control node is left out: it expects the others.
  """
  return {
    "replay": replay_servers(config)
    * (config.topology.replay == "own_process"),
    "trainer": 1,
    "evaluator": int(not config.environment.external),
    "proxy": int(config.topology.proxy),
    "worker": config.topology.workers,
  }
