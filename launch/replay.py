"""The replay node: the TrajectoryManager in a process of its own."""

import typing

import launchpad as lp
import ml_collections
from acme import specs

from agents import registry
from launch import link
from replay import tables, trajectory_manager, variables


def make_trajectory_manager(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  address: lp.Address,
) -> trajectory_manager.TrajectoryManager:
  """The server with a run's tables, wherever it is hosted."""
  packing = registry.make_builder(config.agent).make_packing(spec)
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(config, packing), variables.make_table()],
    port=lp.get_port_from_address(address.resolve()),
  )


class Replay:
  """Hosts the TrajectoryManager apart from the trainer."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    address: lp.Address,
    control: typing.Any,
  ):
    """Serves at once.

    Args:
      config: the whole config.
      spec: of one environment.
      address: to serve at.
      control: Courier client of the control node.
    """
    self._control = control
    self._manager = make_trajectory_manager(config, spec, address)

  def run(self) -> None:
    """Serves until the run stops."""
    with link.Link(self._control, "replay", 0, self._metrics) as node_link:
      while not node_link.wait(1.0):
        pass
    # Its last report was of an open server.
    self._manager.close()

  def _metrics(self) -> dict[str, typing.Any]:
    return self._manager.status(tables.TRANSITIONS)._asdict()
