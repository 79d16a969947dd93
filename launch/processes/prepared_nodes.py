"""Prepared nodes: makes Launchpad nodes ready to run in other processes.

None of Launchpad's launchers can restart a node. So this module initializes
contexts, handles and addresses as the launchers do, and pickles each node's
function. The pickled function can run in any process, any number of times.
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

# Roles whose processes enter the private network, because they serve tables or
# read them without a proxy.
_ISOLATED_ROLES = ("replay", "trainer")


@dataclasses.dataclass(frozen=True)
class PreparedNode:
  """A Launchpad node that can be run in any process of this machine.

  Attributes:
    name: the node's name, such as 'worker/0'.
    function: the node's function, pickled by cloudpickle.
    environment: additional environment variables of the node's process.
    node: the Launchpad node, which reserves the node's ports as long as it
      exists; None if the node has no ports.
    network: private network that the process enters, or None to stay in the
      machine's network.
  """

  name: str
  function: bytes
  environment: Mapping[str, str]
  node: base.Node | None = None
  network: private_network.PrivateNetwork | None = None

  @property
  def role(self) -> str:
    """The node's role, such as 'worker'."""
    return self.name.partition("/")[0]


def prepare(
  program: lp.Program,
  nodes: Sequence[tuple[str, int]],
  environments: Mapping[str, Mapping[str, str]],
  network: private_network.PrivateNetwork | None = None,
) -> list[PreparedNode]:
  """Binds the addresses of a program's nodes, and pickles their functions.

  Args:
    program: the Launchpad program with the nodes.
    nodes: role and index of each node, in the program's order.
    environments: additional environment variables of a node's process, by role.
    network: private network of the nodes that serve or read tables, or None if
      they use the machine's network.

  Returns:
    The prepared nodes, in the order of `nodes`.
  """
  groups = {role: iter(group) for role, group in program.groups.items()}
  found = [(role, index, next(groups[role])) for role, index in nodes]
  _initialize_nodes([(role, node) for role, _, node in found])
  return [
    dataclasses.replace(
      _pickle_node(role, index, node, environments[role]),
      network=network if role in _ISOLATED_ROLES else None,
    )
    for role, index, node in found
  ]


def prepare_worker(
  index: int, node: base.Node, environment: Mapping[str, str]
) -> PreparedNode:
  """Prepares a worker that is added after `prepare`.

  Args:
    index: index of the worker.
    node: the Launchpad node.
    environment: additional environment variables of the node's process.
  """
  _initialize_nodes([("worker", node)])
  return _pickle_node("worker", index, node, environment)


def _initialize_nodes(nodes: Sequence[tuple[str, base.Node]]) -> None:
  """Sets up the contexts, handles and addresses of Launchpad nodes.

  Args:
    nodes: pairs of a role and a Launchpad node.
  """
  serialization.enable_lru_cache_pickling_once()
  flags.FLAGS.mark_as_parsed()  # Launchpad uses the defaults of its flags
  for _, node in nodes:
    # Launchpad's own launchers call it; there is no public function for it.
    node._initialize_context(
      context.LaunchType.LOCAL_MULTI_PROCESSING, launch_config=None
    )
  for role, node in nodes:
    for handle in node.input_handles:
      handle.connect(node, role)
  for _, node in nodes:
    node.bind_addresses()


def _pickle_node(
  role: str, index: int, node: base.Node, environment: Mapping[str, str]
) -> PreparedNode:
  """Pickles the function of a Launchpad node whose addresses are bound.

  Args:
    role: the node's role.
    index: index of the node among the nodes of its role.
    node: the Launchpad node.
    environment: additional environment variables of the node's process.
  """
  function = cloudpickle.dumps(node.function)
  return PreparedNode(f"{role}/{index}", function, environment, node)
