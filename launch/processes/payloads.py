"""Payloads: a program's nodes, ready to run in processes that are not ours.

Launchpad's own launches are a closed list, and none restarts a node. What they
do before they start processes is little: contexts, handles and addresses. A
node's function is then a pickle that runs anywhere, and any number of times.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import cloudpickle
import launchpad as lp
from absl import flags
from launchpad import context
from launchpad.launch import serialization
from launchpad.nodes import base

from slipway.launch.processes import private_network

# Roles whose processes serve tables, or read them from a server: the others
# have a proxy.
_ISOLATED = ("replay", "trainer")


@dataclasses.dataclass(frozen=True)
class Payload:
  """One node.

  Attributes:
    name: 'worker/0'.
    function: what the node does, by cloudpickle.
    environment: variables of its process besides the runner's.
    node: holds its ports, for as long as it may be started.
    network: that its process enters; None: it stays in the machine's.
  """

  name: str
  function: bytes
  environment: Mapping[str, str]
  node: base.Node | None = None
  network: private_network.PrivateNetwork | None = None

  @property
  def role(self) -> str:
    """'worker'."""
    return self.name.partition("/")[0]


def prepare(
  program: lp.Program,
  nodes: Sequence[tuple[str, int]],
  environments: Mapping[str, Mapping[str, str]],
  network: private_network.PrivateNetwork | None = None,
) -> list[Payload]:
  """Binds a program's addresses, to ports of this machine, and pickles it.

  Args:
    program: whose nodes are to run in processes.
    nodes: role and index of each, those of a role in the program's order.
    environments: variables of a node's process, by role.
    network: for the nodes that serve tables or read them from the server.
  """
  groups = {role: iter(group) for role, group in program.groups.items()}
  found = [(role, index, next(groups[role])) for role, index in nodes]
  _bind([(role, node) for role, _, node in found])
  return [
    dataclasses.replace(
      _payload(role, index, node, environments[role]),
      network=network if role in _ISOLATED else None,
    )
    for role, index, node in found
  ]


def prepare_one(
  role: str, index: int, node: base.Node, environment: Mapping[str, str]
) -> Payload:
  """Does the same with one more node, whose program has been prepared."""
  _bind([(role, node)])
  return _payload(role, index, node, environment)


def _bind(nodes: Sequence[tuple[str, base.Node]]) -> None:
  serialization.enable_lru_cache_pickling_once()
  flags.FLAGS.mark_as_parsed()  # ours are apart: Launchpad takes its defaults
  for _, node in nodes:
    node._initialize_context(
      context.LaunchType.LOCAL_MULTI_PROCESSING, launch_config=None
    )
  for role, node in nodes:
    for handle in node.input_handles:
      handle.connect(node, role)
  for _, node in nodes:
    node.bind_addresses()


def _payload(
  role: str, index: int, node: base.Node, environment: Mapping[str, str]
) -> Payload:
  function = cloudpickle.dumps(node.function)
  return Payload(f"{role}/{index}", function, environment, node)
