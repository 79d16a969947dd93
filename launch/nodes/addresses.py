"""Data addresses: where nodes reach replay servers, proxy and shared memory."""

import dataclasses
import functools
import os
import socket
import ssl
import typing
from collections.abc import Callable

from slipway.launch.nodes import endpoint, ports
from slipway.replay.transport import certificates, control_block, routes
from slipway.replay.variables import shared_variables


class Server(typing.NamedTuple):
  """A TrajectoryManager, as the nodes of a machine know it.

  Attributes:
    name: name of the server, such as 'replay1'.
    address: 'host:port', or '' if the server is on another machine.
  """

  name: str
  address: str = ""


def reserve_port() -> socket.socket:
  """Reserves a free port of this machine for a server, until the socket closes.

  The socket never listens. So no connection of another process gets the port
  before the server starts or while it restarts. The server itself can bind the
  port, because both sockets set SO_REUSEADDR; gRPC's servers do.

  Raises:
    OSError: no port is free.
  """
  reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
  reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
  reserved.bind(("", 0))
  return reserved


@dataclasses.dataclass(frozen=True)
class DataAddresses:
  """Addresses of replay servers, sockets and files for one machine's nodes.

  Attributes:
    servers: the TrajectoryManagers, one per shard. The first server also has
      the variables.
    proxy_dir: the run's tmpfs directory on this machine, with the proxy's
      sockets, the shared variables and the control block, or None if there is
      no proxy.
    first_worker: index in the run of the machine's first worker, which has slot
      0 in the control block.
    remote: whether the servers run on another machine; their addresses are then
      in the endpoint files of proxy_dir, and may change.
    identity: this machine's identity for mutual TLS, or None for plain TCP.
    isolated: whether the servers are in a private network, so that other
      processes get their connections as passed sockets.
  """

  servers: tuple[Server, ...]
  proxy_dir: str | None
  first_worker: int = 0
  remote: bool = False
  identity: certificates.Identity | None = None
  isolated: bool = False

  def upstream(self, shard: int) -> str | Callable[[], str | None]:
    """Returns the address at which this machine's proxy reaches a server.

    Args:
      shard: index of the replay server's shard.

    Returns:
      'host:port' of a local server, or 'passed:PATH' if the server is in a
      private network. For a remote server, a function that returns its current
      'host:port', or None while that is not known.
    """
    server = self.servers[shard]
    if self.isolated:
      return f"passed:{self.passing_path(shard)}"
    if not self.remote:
      return server.address
    assert self.proxy_dir is not None
    path = endpoint.path_in(self.proxy_dir, server.name)
    return functools.partial(endpoint.read, path)

  def passing_path(self, shard: int) -> str | None:
    """Returns the path of the socket to a server in a private network, or None.

    Processes outside of the private network connect to that socket, and receive
    connected sockets of the server.
    """
    if not self.isolated:
      return None
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, f"{self.servers[shard].name}.sock")

  @property
  def tls(self) -> ssl.SSLContext | None:
    """TLS context for connections to remote servers, or None for plain TCP."""
    if not self.remote or self.identity is None:
      return None
    return self.identity.client_context()

  def proxy_listen(self, shard: int) -> str:
    """Returns 'unix:PATH', where the proxy listens for a shard's workers."""
    assert self.proxy_dir is not None
    name = f"relay-{shard}.sock" if shard else "relay.sock"
    return "unix:" + os.path.join(self.proxy_dir, name)

  @property
  def variables_path(self) -> str:
    """Path of the file with the newest variables, mapped by their readers."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "variables")

  @property
  def control_block_path(self) -> str:
    """Path of the shared control block, which proxy and workers map."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "control_block")

  def open_control_block(
    self, worker: int
  ) -> control_block.WorkerHandle | None:
    """Opens a worker's slot in the machine's shared control block.

    Returns:
      The handle of the slot, or None if the machine has no proxy.

    Raises:
      ValueError: another process has the slot, or the path cannot be used.
    """
    if not self.proxy_dir:
      return None
    return control_block.WorkerHandle(
      self.control_block_path,
      worker - self.first_worker,
      self.shard_of(worker) if len(self.servers) > 1 else None,
    )

  def open_external_control_block(
    self, workers: int
  ) -> tuple[int, control_block.WorkerHandle]:
    """Opens the first free slot for an external process in the control block.

    Args:
      workers: number of workers of the run. An external process with index i
        writes to the shard of worker `workers + i`.

    Returns:
      The index of this process among the external ones, and the handle of its
      slot.

    Raises:
      ValueError: no slot is free, or the control block cannot be opened.
    """
    for index in range(control_block.MAX_EXTERNALS):
      shard = self.shard_of(workers + index) if len(self.servers) > 1 else None
      try:
        return index, control_block.WorkerHandle(
          self.control_block_path, control_block.MAX_WORKERS + index, shard
        )
      except control_block.InUseError:
        continue
    raise ValueError(
      f"{control_block.MAX_EXTERNALS} external processes are connected on this "
      "machine, and its proxy serves no more: close one of them first"
    )

  def shard_of(self, worker: int) -> int:
    """Returns the index of the shard to which a worker writes."""
    return worker % len(self.servers)

  def make_route(
    self, worker: int, handle: control_block.WorkerHandle | None
  ) -> routes.Route:
    """Returns the route over which a worker writes to its shard's server.

    Args:
      handle: handle of the worker's slot in the proxy's control block, or None
        for a direct route without a proxy.
    """
    shard = self.shard_of(worker)
    if handle is None:
      return routes.DirectRoute(self.servers[shard].address)
    return routes.ProxyRoute(self.proxy_listen(shard), handle)

  def make_variables_source(
    self, period_s: float = 0.1
  ) -> ports.VariablesSource:
    """Returns a new source of variables for one worker or evaluator.

    The source reads the machine's shared memory, or without a proxy polls the
    first server.

    Args:
      period_s: seconds between polls of the server; unused with a proxy.
    """
    if self.proxy_dir:
      return shared_variables.SharedVariables(self.variables_path)
    # Imported here, because it imports TensorFlow, which nodes with a proxy do
    # not need.
    from slipway.replay.variables import variables

    return variables.ServerVariables(self.servers[0].address, period_s)
