"""Service node: a Launchpad node whose object other nodes call by unix socket.

It replaces Launchpad's CourierNode, whose server listens on all interfaces and
unpickles data from any user of the machine.
"""

import dataclasses
import socket
import typing

import launchpad as lp
from launchpad import address as lp_address
from launchpad.nodes import base

from slipway.launch.rpc import client

# Type of the class that declares a service's methods, such as `ControlService`.
Service = typing.TypeVar("Service")


class Handle(base.Handle[Service], typing.Generic[Service]):
  """A Launchpad handle that dereferences to a client of a service.

  Attributes:
    path: path of the unix socket at which the service is served.
  """

  def __init__(self, service: type[Service], path: str):
    """Makes a handle without connecting.

    Args:
      service: class that declares the service's methods.
      path: path of the unix socket on this machine at which an object with
        these methods is served.
    """
    self.path = path
    self._service = service

  def dereference(self) -> Service:
    """Returns a client that calls the service at the socket `path`."""
    return client.connect(self._service, self.path)


@dataclasses.dataclass(frozen=True)
class FixedAddress(lp_address.AbstractAddressBuilder):
  """A Launchpad address builder that returns a given address.

  Attributes:
    address: 'host:port'.
  """

  address: str

  def build(self) -> str:
    """Returns the given 'host:port'."""
    return self.address


class ReservedPort(lp_address.AbstractAddressBuilder):
  """A Launchpad address builder that reserves a port for a node's server.

  A socket that never listens is bound to the port. So no connection of another
  process gets this port before the server starts or while the server restarts.
  The server itself can bind the port, because both sockets set SO_REUSEADDR;
  gRPC's servers do. A pickled copy has only the address, without the socket.
  """

  def __init__(self):
    """Reserves a free port.

    Raises:
      OSError: no port is free.
    """
    self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    self._socket.bind(("", 0))

  def build(self) -> str:
    """Returns 'localhost:PORT' with the reserved port."""
    return f"localhost:{self._socket.getsockname()[1]}"

  def __reduce__(self):
    """Pickles the address only, because a socket cannot be pickled."""
    return FixedAddress, (self.build(),)


class ServiceNode(lp.PyClassNode):
  """A Launchpad node that makes an object in its process, and calls its `run`.

  The object may also offer a service, whose methods other nodes call.
  """

  def __init__(self, handle: Handle | None, make: typing.Any, *args):
    """Makes a node without its object, which the node's process makes later.

    Args:
      handle: handle of the service that the object offers to other nodes, or
        None if the object offers no service.
      make: function that returns the object, called in the node's process.
      *args: arguments of `make`; handles are dereferenced.
    """
    super().__init__(make, *args)
    self._handle = handle

  def create_handle(self) -> typing.Any:
    """Returns the handle by which other nodes call the object's service."""
    if self._handle is None:
      return super().create_handle()
    return self._track_handle(self._handle)

  def bind_addresses(self, **kwargs) -> None:
    """Binds each address of this node to a newly reserved port."""
    del kwargs
    for address in self.addresses:
      address.bind(ReservedPort())
