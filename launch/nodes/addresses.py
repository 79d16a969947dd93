"""Where a node reads and writes: the server itself, or its machine's proxy."""

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
  """Addresses of the data plane, as the nodes of one machine see them.

  Attributes:
    servers: of the TrajectoryManagers, one a shard of the replay, if they run
      on this machine; the first has the variables.
    proxy_dir: folder in memory that belongs to the run and this machine, with
      the proxy's socket, the shared variables and the control block; None:
      there is no proxy.
    first_worker: index of the machine's first worker, which has slot 0 in the
      control block.
    elsewhere: whether they run on another machine; where, the endpoints in
      proxy_dir say, and may change.
    identity: of this machine, for mutual TLS with others; None: plain TCP.
    isolated: whether the servers are in a network of their own, so that other
      processes of this machine have their connections passed to them.
  """

  servers: tuple[lp.Address, ...]
  proxy_dir: str | None
  first_worker: int = 0
  elsewhere: bool = False
  identity: certificates.Identity | None = None
  isolated: bool = False

  def upstream(self, shard: int) -> str | Callable[[], str | None]:
    """A TrajectoryManager's address, or, elsewhere, what returns it now."""
    server = self.servers[shard]
    if self.isolated:
      return f"passed:{self.passing_path(shard)}"
    if not self.elsewhere:
      return server.resolve()
    assert self.proxy_dir is not None
    path = endpoint.path_in(self.proxy_dir, str(server.name))
    return endpoint.Endpoint(path).read

  def passing_path(self, shard: int) -> str | None:
    """The socket by which an isolated server's connections are passed."""
    if not self.isolated:
      return None
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, f"{self.servers[shard].name}.sock")

  @property
  def tls(self) -> ssl.SSLContext | None:
    """The context for connections to other machines; None: plain TCP."""
    if not self.elsewhere or self.identity is None:
      return None
    return self.identity.client_context()

  def proxy_listen(self, shard: int) -> str:
    """The proxy's socket to a shard, which only its own user may open."""
    assert self.proxy_dir is not None
    name = f"relay-{shard}.sock" if shard else "relay.sock"
    return "unix:" + os.path.join(self.proxy_dir, name)

  @property
  def variables_path(self) -> str:
    """The file of the shared variables."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "variables")

  @property
  def control_block_path(self) -> str:
    """The file of the control block, which the proxy and its workers map."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "control_block")

  def open_control_block(
    self, worker: int
  ) -> control_block.WorkerHandle | None:
    """Opens a worker's slot in the control block; None: there is no proxy."""
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
    """Takes the first free place for an external process; returns its index.

    Args:
      workers: of the run; the process writes to the shard of one more worker.

    Raises:
      ValueError: one line: no place is free, or the path cannot be used.
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
    """The shard that a worker writes to: they are spread evenly."""
    return worker % len(self.servers)

  def make_route(
    self, worker: int, handle: control_block.WorkerHandle | None
  ) -> routes.Route:
    """Returns the route of a worker's items, by its proxy if it has one."""
    shard = self.shard_of(worker)
    if handle is None:
      return routes.DirectRoute(self.servers[shard].resolve())
    return routes.ProxyRoute(self.proxy_listen(shard), handle)

  def make_variables_source(
    self, period_s: float = 0.1
  ) -> ports.VariablesSource:
    """Makes the source of a worker's or an evaluator's variables.

    Args:
      period_s: seconds between two polls of the server, if there is no proxy.
    """
    if self.proxy_dir:
      return shared_variables.SharedVariables(self.variables_path)
    # Imports TensorFlow, which an evaluator beside a proxy does without.
    from slipway.replay.variables import variables

    return variables.ServerVariables(self.servers[0].resolve(), period_s)
