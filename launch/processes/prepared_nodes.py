"""Prepared nodes: what the process of a node runs, and where."""

import typing
from collections.abc import Mapping

from slipway.launch.processes import private_network


class PreparedNode(typing.NamedTuple):
  """A node that can be run in any process of this machine, any number of times.

  Attributes:
    name: the node's name, such as 'worker/0'.
    function: the node's function, pickled by cloudpickle.
    environment: additional environment variables of the node's process.
    network: private network that the process enters, or None to stay in the
      machine's network.
  """

  name: str
  function: bytes
  environment: Mapping[str, str]
  network: private_network.PrivateNetwork | None = None

  @property
  def role(self) -> str:
    """The node's role, such as 'worker'."""
    return self.name.partition("/")[0]
