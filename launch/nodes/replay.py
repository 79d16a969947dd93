"""Replay node: runs a shard's TrajectoryManager in a separate process."""

import ctypes

import ml_collections
from absl import logging
from acme import specs

from slipway.launch.control import control_service, messages
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import link, snapshot_writer
from slipway.launch.runs import run_folder, snapshot_store
from slipway.replay.tables import table_status, tables, trajectory_manager
from slipway.replay.variables import variables

_M_ARENA_MAX = -8  # glibc's option of mallopt(3) for the number of heaps


class HostedTables:
  """A TrajectoryManager for one shard, with tables restored from a snapshot."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    snapshot: snapshot_store.Snapshot | None,
    address: str,
    passing_path: str | None,
    shard: int = 0,
  ):
    """Starts a server with the tables of a snapshot, or with empty ones.

    Args:
      snapshot: the snapshot to restore, or None to start with empty tables.
      address: 'host:port' of the server on this machine.
      passing_path: path of the socket at which processes outside of the private
        network get connections, or None if they can use the address.
      shard: index of the shard, from 0. Shard 0 also has the table of the
        variables.

    Raises:
      ValueError: the saved tables do not fit the config.
    """
    # With one heap per thread, a snapshot of a million items holds the table's
    # lock for 50% longer (docs/libraries.md).
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
    self._manager = trajectory_manager.TrajectoryManager(
      hosted,
      port=int(address.rpartition(":")[2]),
      saving_dir=folder.replay_saving(shard),
      restore_from=saved,
      passing_path=passing_path,
    )
    self._counts = table_status.TableStatus()  # zeros if the run has no table
    if self._table is not None:
      self._read_counts(timeout_s=5)

  def report(self) -> messages.ReplayReport:
    """Returns the table's newest counts.

    A snapshot locks a table while its items are listed: 4 s per million. The
    counts are then those of before, so that the node still reports.
    """
    if self._table is not None:
      try:
        self._read_counts(timeout_s=1)
      except TimeoutError as error:
        logging.info("the reported counts are outdated: %s", error)
    return messages.ReplayReport(replay=self._counts)

  def _read_counts(self, timeout_s: int) -> None:
    """Requests the table's current counts from its server."""
    self._counts = self._manager.status(tables.TRANSITIONS, timeout_s)

  def close(self) -> None:
    """Stops the server; blocked clients get an error."""
    self._manager.close()


class Replay:
  """Node that serves one shard's tables, and reports their counts."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    shard: int,
    address: str,
    passing_path: str | None,
    control: control_service.ControlService,
  ):
    """Starts the server with the tables of the run's newest snapshot.

    Args:
      folder: the run's folder, for snapshots.
      shard: index of the shard, from 0.
      address: 'host:port' of the server on this machine.
      passing_path: path of the socket that passes connections; see
        `HostedTables`.

    Raises:
      ValueError: the saved tables do not fit the config.
      OSError: the run's snapshots can't be read.
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
    """Serves the tables until the run stops, then stops the server."""
    with link.Link(
      self._control, "replay", self._shard, self._tables.report
    ) as node_link:
      while not node_link.wait(1.0):
        pass
    # Closed after the last report, which reads the open server.
    self._tables.close()
