"""Where a node reads and writes: the server itself, or its machine's proxy."""

import dataclasses
import os
import typing

import launchpad as lp

from replay import board, routes, shared_variables, variable_packing


class VariablesSource(typing.Protocol):
  """Gives each new version of the variables once."""

  def poll(self) -> variable_packing.Snapshot | None:
    """The newest version if it is not the last one given, else None."""
    ...


@dataclasses.dataclass(frozen=True)
class DataAddresses:
  """Addresses of the data plane, as the nodes of one machine see them.

  Attributes:
    server: of the TrajectoryManager.
    proxy_dir: folder in memory that belongs to the run and this machine, with
      the proxy's socket, the shared variables and the board; None: there is no
      proxy.
  """

  server: lp.Address
  proxy_dir: str | None

  @property
  def proxy_listen(self) -> str:
    """The proxy's socket, which only its own user may open."""
    assert self.proxy_dir is not None
    return "unix:" + os.path.join(self.proxy_dir, "relay.sock")

  @property
  def variables_path(self) -> str:
    """The file of the shared variables."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "variables")

  @property
  def board_path(self) -> str:
    """The file by which the proxy tells its workers what to do."""
    assert self.proxy_dir is not None
    return os.path.join(self.proxy_dir, "board")

  def take_seat(self, worker: int) -> board.WorkerSeat | None:
    """The place of a worker at its proxy's board; None: there is no proxy."""
    return board.WorkerSeat(self.board_path, worker) if self.proxy_dir else None

  def make_route(self, seat: board.WorkerSeat | None) -> routes.Route:
    """The way of a worker's items, through its proxy if it has a seat there."""
    if seat is None:
      return routes.DirectRoute(self.server.resolve())
    return routes.ProxyRoute(self.proxy_listen, seat)

  def make_variables_source(self) -> VariablesSource:
    """Where workers and evaluators get variables from."""
    if self.proxy_dir:
      return shared_variables.SharedVariables(self.variables_path)
    # Imports TensorFlow, which an evaluator beside a proxy does without.
    from replay import variables

    return variables.ServerVariables(self.server.resolve())
