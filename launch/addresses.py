"""Where a node reads and writes: the server itself, or its machine's proxy."""

import dataclasses
import os
import typing

import launchpad as lp

from replay import shared_variables, variable_packing


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
      the proxy's socket and the shared variables; None: there is no proxy.
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

  def write_address(self) -> str:
    """Where workers write to."""
    return self.proxy_listen if self.proxy_dir else self.server.resolve()

  def make_variables_source(self) -> VariablesSource:
    """Where workers and evaluators get variables from."""
    if self.proxy_dir:
      return shared_variables.SharedVariables(self.variables_path)
    # Imports TensorFlow, which an evaluator beside a proxy does without.
    from replay import variables

    return variables.ServerVariables(self.server.resolve())
