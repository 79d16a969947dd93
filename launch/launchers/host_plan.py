"""Host plan: the nodes of a run on one machine, and how they reach others."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import ml_collections

from slipway.launch.processes import private_network
from slipway.replay.transport import certificates

# Roles in the order in which their nodes are started. A role comes before the
# roles that need it.
_START_ORDER = ("replay", "trainer", "proxy", "worker", "evaluator")


@dataclasses.dataclass(frozen=True)
class HostPlan:
  """The nodes of a run on one machine, and their access to other machines.

  Attributes:
    nodes: role and index of each node on the machine, in the order of starting.
    expected: number of nodes in the whole run by role.
    memory_dir: the run's tmpfs directory on this machine.
    control_socket: path of the socket on this machine that leads to the run's
      control, the launcher's or that of the machine's gateway.
    first_worker: index of the machine's first worker, among all of the run.
    may_be_joined: whether nodes of other machines fetch the variables from the
      TrajectoryManager, now or once they join the run.
    replay_is_remote: whether the TrajectoryManagers run on another machine;
      their addresses are then in the endpoint files of memory_dir.
    identity: this machine's identity for mutual TLS, or None for plain TCP.
    network: private network for the processes that serve or read tables. None
      stands for the machine's network, in which other users can reach the
      tables.
  """

  nodes: tuple[tuple[str, int], ...]
  expected: Mapping[str, int]
  memory_dir: str
  control_socket: str
  first_worker: int = 0
  may_be_joined: bool = False
  replay_is_remote: bool = False
  identity: certificates.Identity | None = None
  network: private_network.PrivateNetwork | None = None

  @classmethod
  def for_single_host(
    cls,
    config: ml_collections.ConfigDict,
    memory_dir: str,
    control_socket: str,
    network: private_network.PrivateNetwork | None = None,
  ) -> "HostPlan":
    """Returns the plan of a run on a single machine; see the attributes."""
    expected = count_expected_nodes(config)
    nodes = list_nodes(expected)
    return cls(nodes, expected, memory_dir, control_socket, network=network)


def list_nodes(
  count: Mapping[str, int], first: Mapping[str, int] = MappingProxyType({})
) -> tuple[tuple[str, int], ...]:
  """Returns role and index of each node, in the order of starting.

  Args:
    count: number of nodes by role; missing roles have none.
    first: index of the first node by role; 0 for missing roles.
  """
  return tuple(
    (role, first.get(role, 0) + index)
    for role in _START_ORDER
    for index in range(count.get(role, 0))
  )


def count_replay_servers(config: ml_collections.ConfigDict) -> int:
  """Returns the number of TrajectoryManagers, the Reverb servers of a run.

  A run without a table has one, which serves the variables.
  """
  return config.replay.shards if "replay" in config else 1


def count_expected_nodes(config: ml_collections.ConfigDict) -> dict[str, int]:
  """Returns the number of nodes by role in a run on a single machine."""
  return {
    "replay": count_replay_servers(config)
    * (config.topology.replay == "own_process"),
    "trainer": 1,
    "evaluator": int(not config.environment.external),
    "proxy": int(config.topology.proxy),
    "worker": config.topology.workers,
  }
