"""The trainer node: samples, learns, pushes priorities and variables."""

import functools
import time
import typing
from collections.abc import Sequence

import launchpad as lp
import ml_collections
import msgspec
from absl import logging
from acme import specs

from agents import core, registry, sharded_loop, update_loop
from configs import limiter as limiter_lib
from configs import sizes
from launch.nodes import link, policy_age, sharded, snapshot_writer
from launch.nodes import replay as replay_node
from launch.orchestration import messages, rounds
from launch.runs import checkpoints, run_folder, snapshot_store
from replay import (
  dataset,
  lasting_publisher,
  layouts,
  priority_updater,
  tables,
)
from replay import variables as variables_lib

_IDLE_S = 0.02
_GO = messages.Command()
_SAVE_S = 4.0  # for the last snapshot, which the stop order waits for
_FIRST_S = 30.0  # for the shard that has the variables, when nothing runs yet


class Trainer:
  """Runs a learner on the dataset of a table, or on those of its shards."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    folder: run_folder.RunFolder,
    servers: Sequence[lp.Address],
    control: typing.Any,
  ):
    """Begins at the run's newest snapshot, and publishes its variables.

    Args:
      config: the whole config.
      spec: of one environment.
      folder: of the run, for snapshots.
      servers: of the TrajectoryManagers, the first of which has the variables;
        a single one is hosted here where config.topology.replay says so.
      control: `control_client.ControlClient` of the control node.

    Raises:
      ValueError: the snapshot does not fit the config.
      OSError: where the run was can't be found out.
    """
    self._config, self._control = config, control
    self._sizes = sizes.Sizes.of(config)
    # Looked for once: tables and learner begin at the same one.
    snapshot = snapshot_store.newest_of(config, folder)
    self._tables = None
    if config.topology.replay == "with_trainer":
      self._tables = replay_node.HostedTables(
        config, spec, folder, snapshot, servers[0]
      )
    address = servers[0].resolve()
    self._shards = sharded.watch(servers)  # none: there is one table
    self._table = tables.TableView(address, tables.TRANSITIONS)
    builder = registry.make_builder(config.agent)
    self._learner = builder.make_learner(config, spec)
    if snapshot:
      checkpoints.restore(snapshot.path, self._learner)
      logging.info("goes on from snapshot %d", snapshot.number)
    self._steps = self._began_at = int(self._learner.steps)
    # Above all that anybody acts on, also of a trainer that was killed since.
    self._version = control.variables_version()
    first_version = self._version + 1
    self._lasting: lasting_publisher.LastingPublisher | None = None
    if self._shards:
      self._shards[0].wait(_FIRST_S)
      self._lasting = lasting_publisher.LastingPublisher(
        self._shards[0], first_version
      )
    self._publisher = self._lasting or variables_lib.VariablesPublisher(
      address, first_version
    )
    self._publish()
    self._loop = self._make_loop(builder.make_layout(config, spec), address)
    self._snapshots = snapshot_writer.SnapshotWriter(
      config,
      folder,
      self._learner,
      [server.resolve() for server in servers],
      control,
      snapshot,
      lambda shard: not self._shards or self._shards[shard].up,
    )
    self._saves = 0  # asked for and begun
    self._limiter = limiter_lib.Limiter.of(config)
    self._rounds = rounds.Rounds(config) if config.mode == "sync" else None
    self._limit = config.limits.trainer_steps  # 0: none
    self._learned: dict[str, float | None] = {}
    self._first_step_at_s: float | None = None
    self._starved_since_s: float | None = time.monotonic()
    self._starving = True  # the table may not have a whole call's batches

  @property
  def learner(self) -> core.Learner:
    """What learns."""
    return self._learner

  def step(self, orders: messages.Command = _GO) -> int:
    """One call of the update loop, if it is time for one.

    Args:
      orders: what the trainer is asked to do.

    Returns:
      All steps so far.
    """
    if orders.trainer_steps_limit is not None:
      self._limit = orders.trainer_steps_limit
    if orders.paused:
      self._starved_since_s = None
    elif updates := self._may_update(orders):
      self._update(updates)
    if self._lasting is not None and self._lasting.owes:
      self._publish()
    return self._steps

  def run(self) -> None:
    """Learns until the run stops, then saves."""
    with link.Link(
      self._control,
      "trainer",
      0,
      self._report,
      rounds.report_period_s(self._config),
    ) as node_link:
      while not node_link.stopping:
        before, orders = self._steps, node_link.command
        self._save_if_due(orders.saves_requested)
        if self.step(orders) == before:  # at the limit, the others stop first
          node_link.wait(_IDLE_S)
      self._snapshots.finish(self._version, _SAVE_S)
      # Whoever hosts the tables ends next, or does so below.
      self._leave_tables()
    # The last report was of an open server.
    if self._tables is not None:
      self._tables.close()

  def _leave_tables(self) -> None:
    self._publisher.close()
    if isinstance(self._loop, sharded_loop.ShardedLoop):
      self._loop.close()

  def _make_loop(
    self, layout: layouts.Layout, address: str
  ) -> update_loop.UpdateLoop | sharded_loop.ShardedLoop:
    config = self._config
    if self._shards:
      return sharded.make_loop(config, layout, self._learner, self._shards)
    return update_loop.UpdateLoop(
      self._learner,
      dataset.make_dataset(
        address, tables.TRANSITIONS, layout, self._sizes.batch_size
      ),
      priority_updater.PriorityUpdater(address, tables.TRANSITIONS)
      if config.replay.sampler == "prioritized"
      else None,
      functools.partial(dataset.unpack, layout),
    )

  def _save_if_due(self, saves: int) -> None:
    if saves > self._saves or self._snapshots.due:
      self._saves = max(saves, self._saves)
      self._snapshots.start(self._version)

  def _may_update(self, orders: messages.Command) -> int:
    """Updates that it is time for; 0: none now."""
    updates = self._next_updates()
    if self._rounds is not None:
      return min(updates, self._updates_of_round(orders.collected_version))
    # Of shards each starves by itself, which their loop knows.
    if updates and self._starving and not self._shards:
      # What a dataset has of a batch is lost where it ends for want of more.
      allowed = self._samples_allowed() // self._sizes.batch_size
      self._starving = allowed < updates
      return min(updates, allowed)
    return updates

  def _updates_of_round(self, collected_version: int) -> int:
    """Updates that are left of this round, or of the next if it may begin."""
    assert self._rounds is not None
    if self._rounds.updates_left == 0 and collected_version >= self._version:
      if self._is_filled():
        self._rounds.begin()
      else:  # Let them collect another share.
        self._publish()
    return self._rounds.updates_left

  def _is_filled(self) -> bool:
    """Whether the table may be sampled, or all shards that are there."""
    statuses = [shard.status() for shard in self._shards if shard.up]
    if not self._shards:
      statuses = [self._table.status()]
    return bool(statuses) and all(
      status is not None and status.size >= self._sizes.min_size
      for status in statuses
    )

  def _update(self, updates: int) -> None:
    last = self._loop.run(updates)
    before, self._steps = self._steps, int(self._learner.steps)
    if last is None:
      self._starving = True
      self._starved_since_s = self._starved_since_s or time.monotonic()
    else:
      ages = policy_age.metrics(last.versions, self._version)
      self._learned = {**last.metrics, **ages}
      self._starved_since_s = None
    if self._steps > self._began_at:
      self._first_step_at_s = self._first_step_at_s or time.time()
    if self._publishes_after(before):
      self._publish()

  def _publishes_after(self, before: int) -> bool:
    """Whether it is time to, `before` being the steps before the last ones."""
    if self._rounds is not None:
      return self._rounds.ends_after(self._steps - before)
    period = self._config.variables.publish_period
    return self._steps // period > before // period

  def _next_updates(self) -> int:
    """Updates of the next call, none of them beyond the limit."""
    updates = self._config.learner.steps_per_call
    if not self._limit:
      return updates
    return max(0, min(updates, self._limit - self._steps))

  def _publish(self) -> None:
    self._version = self._publisher.publish(self._learner.get_variables())

  def _samples_allowed(self) -> int:
    status = self._table.status()
    return self._limiter.samples_allowed(
      status.size, status.inserted, status.sampled
    )

  def _report(self) -> messages.TrainerReport:
    starved_since_s = self._starved_since_s
    hosted = self._tables and self._tables.report()
    restored = hosted.restored if hosted else messages.RestoredCounts()
    return messages.TrainerReport(
      trainer_steps=self._steps,
      first_step_at_s=self._first_step_at_s,
      variables_version=self._version,
      waiting_s=starved_since_s and time.monotonic() - starved_since_s,
      metrics=self._learned,
      shards_up=sum(s.up for s in self._shards) if self._shards else None,
      restored=msgspec.structs.replace(restored, trainer_steps=self._began_at),
      replay=hosted.replay if hosted else None,
      snapshots=self._snapshots.report(),
    )
