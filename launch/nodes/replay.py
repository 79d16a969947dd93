"""The replay node: the TrajectoryManager in a process of its own."""

import ctypes
import typing

import launchpad as lp
import ml_collections
from acme import specs

from agents import registry
from launch.nodes import link, snapshot_writer
from launch.runs import run_counters, run_folder, snapshots
from replay import tables, trajectory_manager, variables

_M_ARENA_MAX = -8  # of glibc's mallopt


class HostedTables:
  """The server with a run's tables, in the process that hosts it."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    snapshot: snapshots.Snapshot | None,
    address: lp.Address,
  ):
    """Serves what a snapshot has, or empty tables.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run.
      snapshot: that the host begins at; None: it begins with nothing.
      address: to serve at.

    Raises:
      ValueError: what was saved does not fit the config.
    """
    # With a heap for each thread, listing a million items for a snapshot, under
    # the table's lock, takes half as long again (docs/libraries.md).
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    layout = registry.make_builder(config.agent).make_layout(config, spec)
    self._manager = trajectory_manager.TrajectoryManager(
      [
        tables.make_table(config, layout.item_shape),
        variables.make_table(),
      ],
      port=lp.get_port_from_address(address.resolve()),
      saving_dir=folder.replay_saving,
      restore_from=snapshot and snapshot.path / snapshot_writer.REPLAY,
    )
    env_steps = (
      run_counters.RunCounters.read(snapshot.path).environment_steps
      if snapshot
      else 0
    )
    self._began_at = {
      "inserted": self._manager.status(tables.TRANSITIONS).inserted,
      "env_steps": env_steps,
    }

  def metrics(self) -> dict[str, typing.Any]:
    """What the host reports of the table, and what it began with."""
    status = self._manager.status(tables.TRANSITIONS)
    return {"replay": status._asdict(), "began_at": self._began_at}

  def close(self) -> None:
    """Stops serving."""
    self._manager.close()


class Replay:
  """Hosts the TrajectoryManager apart from the trainer."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    address: lp.Address,
    control: typing.Any,
  ):
    """Serves at once.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run, for snapshots.
      address: to serve at.
      control: Courier client of the control node.
    """
    self._control = control
    self._tables = HostedTables(
      config, spec, folder, snapshots.newest_of(folder.snapshots), address
    )

  def run(self) -> None:
    """Serves until the run stops."""
    with link.Link(
      self._control, "replay", 0, self._tables.metrics
    ) as node_link:
      while not node_link.wait(1.0):
        pass
    # Its last report was of an open server.
    self._tables.close()
