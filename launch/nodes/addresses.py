"""Data addresses: the servers, sockets and files that a node uses."""

import dataclasses
import os
import ssl
from collections.abc import Callable

import launchpad as lp

from slipway.launch.nodes import endpoint, ports
from slipway.replay.transport import certificates, control_block, routes
from slipway.replay.variables import shared_variables


@dataclasses.dataclass(frozen=True)
class DataAddresses:
  """Addresses of servers, sockets and files for the nodes of one machine.

  Attributes:
    servers: addresses of the TrajectoryManagers, one per shard, if they run on
      this machine; the first one has the variables.
    proxy_dir: the run's tmpfs directory on this machine, with the proxy's
      sockets, the shared variables and the control block, or None if there is
      no proxy.
    first_worker: index of the machine's first worker, which has slot 0 in the
      control block.
    remote: whether the servers run on another machine; their addresses are then
      in the endpoint files of proxy_dir, and may change.
    identity: this machine's identity for mutual TLS, or None for plain TCP.
    isolated: whether the servers are in a private network, so that other
      processes get their connections as passed sockets.
  """

  servers: tuple[lp.Address, ...]
  proxy_dir: str | None
  first_worker: int = 0
  remote: bool = False
  identity: certificates.Identity | None = None
  isolated: bool = False

  def upstream(self, shard: int) -> str | Callable[[], str | None]:
    """Returns the address at which this machine's proxy reaches a server.

    If the server is remote, it is a function that returns the current address,
    or None while the address is not known.

    Args:
      shard: index of the server's shard.
    """
    server = self.servers[shard]
    if self.isolated:
      return f"passed:{self.passing_path(shard)}"
    if not self.remote:
      return server.resolve()
    assert self.proxy_dir is not None
    path = endpoint.path_in(self.proxy_dir, str(server.name))
    return endpoint.Endpoint(path).read

  def passing_path(self, shard: int) -> str | None:
    """Returns the path of the socket that passes a server's connections.

    It is None if the servers are not in a private network.

    Args:
      shard: index of the server's shard.
    """
    if not self.isolated:
      return None
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, f"{self.servers[shard].name}.sock")

  @property
  def tls(self) -> ssl.SSLContext | None:
    """TLS context for connections to other machines, or None for plain TCP."""
    if not self.remote or self.identity is None:
      return None
    return self.identity.client_context()

  def proxy_listen(self, shard: int) -> str:
    """Returns the address of the proxy's unix socket for a shard."""
    assert self.proxy_dir is not None
    name = f"relay-{shard}.sock" if shard else "relay.sock"
    return "unix:" + os.path.join(self.proxy_dir, name)

  @property
  def variables_path(self) -> str:
    """Path of the file of the shared variables."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "variables")

  @property
  def control_block_path(self) -> str:
    """Path of the control block, which the proxy and its workers map."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "control_block")

  def open_control_block(
    self, worker: int
  ) -> control_block.WorkerHandle | None:
    """Returns a handle of a worker's slot, or None if there is no proxy.

    Args:
      worker: index of the worker in the run.
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
    """Reserves the first free slot of an external process.

    Args:
      workers: number of workers of the run; shards are assigned to external
        processes as to further workers.

    Returns:
      The index of the process, and the handle of its slot.

    Raises:
      ValueError: no slot is free, or the path cannot be used.
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
    """Returns the shard to which a worker writes."""
    return worker % len(self.servers)

  def make_route(
    self, worker: int, handle: control_block.WorkerHandle | None
  ) -> routes.Route:
    """Returns a worker's route to its shard.

    Args:
      worker: index of the worker in the run.
      handle: handle of the worker's slot in the proxy's control block, or None
        for a direct route without a proxy.
    """
    shard = self.shard_of(worker)
    if handle is None:
      return routes.DirectRoute(self.servers[shard].resolve())
    return routes.ProxyRoute(self.proxy_listen(shard), handle)

  def make_variables_source(
    self, period_s: float = 0.1
  ) -> ports.VariablesSource:
    """Returns a source of variables for one worker or evaluator.

    Args:
      period_s: seconds between polls of the server if there is no proxy.
    """
    if self.proxy_dir:
      return shared_variables.SharedVariables(self.variables_path)
    # Imported here, because it imports TensorFlow, which nodes with a proxy do
    # not need.
    from slipway.replay.variables import variables

    return variables.ServerVariables(self.servers[0].resolve(), period_s)
