"""Trainer node: runs the trainer of a distributed run."""

import pathlib
from collections.abc import Sequence

import ml_collections
import msgspec
from absl import logging
from acme import specs

from slipway.agents import core, devices, registry
from slipway.agents.updates import core as updates_core
from slipway.agents.updates import (
  queue_updates,
  recorded_updates,
  replay_updates,
)
from slipway.launch.control import calls, control_service, messages, waits
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import link, snapshot_writer, trainer
from slipway.launch.nodes import replay as replay_node
from slipway.launch.runs import checkpoints, run_folder, snapshot_store
from slipway.replay.transport import routes
from slipway.replay.variables import variables

# Longest wait in seconds for the workers of a round before the next command is
# read.
_ROUND_WAIT_S = 0.2
# Seconds that the node's start waits for each replay server.
_CONNECT_TIMEOUT_S = 30.0


class TrainerNode:
  """Node that runs the trainer and writes the run's snapshots.

  If config.topology.replay is 'with_trainer', it also hosts the replay server.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    servers: Sequence[str],
    passing_path: str | None,
    variables_address: str | None,
    variables_path: str | None,
    control: control_service.ControlService,
  ):
    """Restores the run's newest snapshot, and publishes the variables.

    Args:
      folder: the run's folder, for snapshots.
      servers: 'host:port' of the TrajectoryManagers, one per shard.
      passing_path: path of the socket that passes connections; see
        `replay_node.HostedTables`.
      variables_address: 'host:port' of the server from which nodes fetch the
        variables, or None if none does.
      variables_path: path of this machine's shared variables, or None if its
        nodes fetch them from the server.

    Raises:
      ValueError: the snapshot does not fit the config, or the device of the
        updates is missing.
      OSError: the run's snapshots can't be read.
    """
    devices.check(config.learner.device)
    self._control = control
    builder = registry.make_builder(config.agent)
    self._rates = rates_lib.Rates.from_config(config, spec)
    # The newest snapshot is determined only once, so that tables and learner
    # restore the same one.
    store = snapshot_store.open_store(config, folder)
    snapshot = store.newest()
    self._tables = None
    if config.topology.replay == "with_trainer":
      self._tables = replay_node.HostedTables(
        config, spec, folder, snapshot, servers[0], passing_path
      )
    learner = builder.make_learner(config, spec)
    checkpoints.start(learner, snapshot, config.learner.init_from)
    if snapshot:
      logging.info("resumes from snapshot %d", snapshot.number)
    for server in servers:
      routes.wait_for_server(server, _CONNECT_TIMEOUT_S)
    # The next version must exceed every version that any node has, including
    # those that a killed trainer has published after the snapshot.
    version = control.variables_version()
    self.trainer = trainer.Trainer(
      config,
      self._rates,
      learner,
      _make_updates(
        *(config, spec, builder, learner, self._rates, servers),
        folder.path,
      ),
      variables.VariablesPublisher(
        variables_address, version + 1, shared_path=variables_path
      ),
    )
    self._snapshots = snapshot_writer.SnapshotWriter(
      config,
      folder,
      learner,
      servers,
      control,
      store,
    )
    self._saves_begun = 0  # value of `saves_requested` at the last snapshot

  def run(self) -> None:
    """Trains until the run stops, then writes the final snapshot."""
    with link.Link(self._control, "trainer", 0, self.report) as node_link:
      while not node_link.stopping:
        command = node_link.command
        collected = self._wait_for_round(command)
        if collected is not None:
          command = msgspec.structs.replace(
            command, collected_version=collected
          )
        self._save_if_due(command.saves_requested)
        before = self.trainer.steps
        if self.trainer.step(command) == before and collected is None:
          # There was no batch, or the trainer is at its limit.
          node_link.wait(self._rates.trainer_idle_s)
      self._snapshots.finish(
        self.trainer.version, lambda: node_link.command.last_snapshot_s
      )
      # The trainer's connections are closed before their servers, which stop
      # after this node or, if hosted here, below.
      self.trainer.close()
    # The hosted server is closed after the last report, which reads its counts.
    self.close()

  def close(self) -> None:
    """Stops the replay server if this node hosts it."""
    if self._tables is not None:
      self._tables.close()

  def report(self) -> messages.TrainerReport:
    """Returns the counts of trainer, snapshots and hosted tables.

    The link calls this method to report to the control.
    """
    report, snapshots = self.trainer.report(), self._snapshots.status()
    wait = report.wait
    if snapshots.finishing_s is not None:
      wait = waits.Wait(waits.LAST_SNAPSHOT, snapshots.finishing_s)
    return msgspec.structs.replace(
      report,
      wait=wait,
      replay=self._tables.report().replay if self._tables else None,
      snapshots=snapshots,
    )

  def _wait_for_round(self, command: messages.Command) -> int | None:
    """Waits up to 0.2 s for the workers of a round, if it is their phase."""
    version = self.trainer.version
    if (
      not self.trainer.waits_for_round
      or command.paused
      or command.collected_version >= version
    ):
      return None
    try:
      return self._control.wait_collected(version, _ROUND_WAIT_S)
    except calls.UnreachableError as error:  # the launcher is stopped
      logging.info("no round from the control: %s", error)
      return None

  def _save_if_due(self, saves_requested: int) -> None:
    """Begins a snapshot if one was requested, or its period has passed."""
    requested = saves_requested > self._saves_begun
    if requested and self._snapshots.writing:
      return  # a requested snapshot begins when the last one is written
    if requested or self._snapshots.due:
      self._saves_begun = max(saves_requested, self._saves_begun)
      self._snapshots.start(self.trainer.version)


def _make_updates(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  builder: core.Builder,
  learner: core.Learner,
  rates: rates_lib.Rates,
  servers: Sequence[str],
  folder: pathlib.Path,
) -> updates_core.Updates:
  """Returns the updates for recorded data, a queue or a replay table."""
  table, limiter = rates.table, rates.limiter
  if table is None or limiter is None:
    return recorded_updates.RecordedUpdates(
      learner, config, spec, builder, folder
    )
  if table.is_queue:
    return queue_updates.QueueUpdates(learner, table, servers)
  sample = recorded_updates.make_sampler(
    learner, config, spec, builder, table.recorded, folder
  )
  return replay_updates.ReplayUpdates(learner, table, limiter, servers, sample)
