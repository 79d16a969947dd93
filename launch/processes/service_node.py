"""A Launchpad node whose object is called over a unix socket.

It takes the place of Launchpad's CourierNode, whose server listens on all
interfaces and unpickles what any user of the machine sends to it.
"""

import typing

import launchpad as lp
from launchpad.nodes import base

from slipway.launch.processes import ports
from slipway.launch.rpc import client

Service = typing.TypeVar("Service")


class Handle(base.Handle[Service], typing.Generic[Service]):
  """Lets other nodes call a service.

  Attributes:
    path: of its socket.
  """

  def __init__(self, service: type[Service], path: str):
    """Opens nothing.

    Args:
      service: class that declares the methods.
      path: of the socket at which an object of this machine serves them.
    """
    self.path = path
    self._service = service

  def dereference(self) -> Service:
    """Returns a client of the service."""
    return client.connect(self._service, self.path)


class ServiceNode(lp.PyClassNode):
  """Makes an object and calls its `run`, which serves at most one service."""

  def __init__(self, handle: Handle | None, make: typing.Any, *args):
    """Makes nothing yet.

    Args:
      handle: of the service that the object serves; None: it serves none.
      make: called with `args` in the node's process; returns the object.
      *args: handles among them are dereferenced.
    """
    super().__init__(make, *args)
    self._handle = handle

  def create_handle(self) -> typing.Any:
    """Returns the handle of the service; see `base.Node.create_handle`."""
    if self._handle is None:
      return super().create_handle()
    return self._track_handle(self._handle)

  def bind_addresses(self, **kwargs) -> None:
    """Binds each address to a port that is kept for this node."""
    del kwargs
    for address in self.addresses:
      address.bind(ports.Held())
