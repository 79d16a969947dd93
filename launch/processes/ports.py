"""Ports: of this machine, kept for the servers of nodes.

A port that is only looked for may be taken before its server is up, or while
that is started again, by any connection of any program.
"""

import dataclasses
import socket

from launchpad import address


@dataclasses.dataclass(frozen=True)
class Fixed(address.AbstractAddressBuilder):
  """Builds an address that is known already."""

  known: str

  def build(self) -> str:
    return self.known


class Held(address.AbstractAddressBuilder):
  """Builds the address of a port that the kernel gives nobody else meanwhile.

  Who asks for it by its number gets it, if both set SO_REUSEADDR, as gRPC's
  servers do, and neither listens: so does the node's own server. A copy in
  another process, by pickle, has the address and holds nothing.
  """

  def __init__(self):
    """Takes a free port.

    Raises:
      OSError: there is none.
    """
    self._held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    self._held.bind(("", 0))

  def build(self) -> str:
    return f"localhost:{self._held.getsockname()[1]}"

  def __reduce__(self):
    return Fixed, (self.build(),)
