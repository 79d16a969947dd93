"""The replay node: the TrajectoryManager in a process of its own."""

import ctypes

import launchpad as lp
import ml_collections
from absl import logging
from acme import specs

from slipway.launch.nodes import link, snapshot_writer
from slipway.launch.orchestration import control_service, messages
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.runs import run_counters, run_folder, snapshot_store
from slipway.replay.tables import tables, trajectory_manager
from slipway.replay.variables import variables

_M_ARENA_MAX = -8  # of glibc's mallopt


class HostedTables:
  """The server with a run's tables, in the process that hosts it."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    snapshot: snapshot_store.Snapshot | None,
    address: lp.Address,
    passing_path: str | None,
    shard: int = 0,
  ):
    """Serves what a snapshot has, or empty tables.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run.
      snapshot: that the host begins at; None: it begins with nothing.
      address: to serve at.
      passing_path: of the socket by which processes outside of this one's
        network connect; None: they can use the address.
      shard: of the replay that this is, from 0, which has the variables.

    Raises:
      ValueError: what was saved does not fit the config.
    """
    # With a heap for each thread, listing a million items for a snapshot, under
    # the table's lock, takes half as long again (docs/libraries.md).
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    rates = rates_lib.Rates.from_config(config, spec)
    self._table, shards = rates.table, 1
    hosted = [variables.make_table()] if shard == 0 else []
    if self._table is not None:
      shards = self._table.shards
      hosted.insert(0, tables.make_table(self._table, rates.limiter))
    saved = snapshot and snapshot_writer.tables_path(
      snapshot.path, shard, shards
    )
    if saved and shards > 1 and not saved.exists():
      logging.warning("starts empty: it was down when the snapshot was made")
      saved = None
    self._manager = trajectory_manager.TrajectoryManager(
      hosted,
      port=lp.get_port_from_address(address.resolve()),
      saving_dir=folder.replay_saving(shard),
      restore_from=saved,
      passing_path=passing_path,
    )
    env_steps = None
    if shards == 1:  # the items that one of several lost show how many steps
      env_steps = (
        run_counters.RunCounters.read(snapshot.path).environment_steps
        if snapshot
        else 0
      )
    self._restored = messages.RestoredCounts(
      env_steps=env_steps, inserted=self._counts().inserted
    )

  def report(self) -> messages.ReplayReport:
    """Returns counts of the table, and those with which it began."""
    return messages.ReplayReport(replay=self._counts(), restored=self._restored)

  def _counts(self) -> messages.TableCounts:
    if self._table is None:
      return messages.TableCounts()
    return messages.TableCounts(*self._manager.status(tables.TRANSITIONS))

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
    shard: int,
    address: lp.Address,
    passing_path: str | None,
    control: control_service.ControlService,
  ):
    """Serves at once.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run, for snapshots.
      shard: of the replay that this is, from 0.
      address: to serve at.
      passing_path: see `HostedTables`.
      control: client of the control node.

    Raises:
      ValueError: what was saved does not fit the config.
      OSError: where the run was can't be found out.
    """
    self._shard, self._control = shard, control
    self._tables = HostedTables(
      config,
      spec,
      folder,
      snapshot_store.open_store(config, folder).newest(),
      address,
      passing_path,
      shard,
    )

  def run(self) -> None:
    """Serves until the run stops."""
    with link.Link(
      self._control, "replay", self._shard, self._tables.report
    ) as node_link:
      while not node_link.wait(1.0):
        pass
    # Its last report was of an open server.
    self._tables.close()
