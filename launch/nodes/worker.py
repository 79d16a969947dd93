"""The worker node: collects transitions and writes them."""

import time
import typing

import ml_collections
from absl import logging
from acme import specs

from agents import registry
from launch.nodes import addresses, collector, link, pace
from launch.orchestration import messages, rounds
from replay import board, tables
from replay import writer as writer_lib

_WAIT_S = 0.2  # at most, until the next look at what to do
_IDLE_S = 0.005  # while paused, and before the first variables
_SETTLE_S = 2.0  # for what is in flight at the end
_SAY_AFTER_S = 1.0  # shorter waits are the rate limiter doing its work
_GO = messages.Command()


class Worker:
  """Steps a batch of environments with the newest variables."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    index: int,
    data: addresses.DataAddresses,
    control: typing.Any,
  ):
    """Makes the environments, and goes on where this worker was killed.

    Args:
      config: the whole config.
      spec: of one environment.
      index: of this worker, from 0.
      data: where to write to, and where variables come from.
      control: `control_client.ControlClient` of the control node.
    """
    self._config, self._index, self._control = config, index, control
    builder = registry.make_builder(config.agent)
    registration = control.register("worker", index)
    self._collector = collector.Collector(
      config,
      spec,
      builder,
      index,
      registration.restart_count,
      registration.env_steps,
    )
    self._variables = data.make_variables_source()
    self._seat = data.take_seat(index)
    self._writer = writer_lib.ItemWriter(
      data.make_route(index, self._seat),
      tables.TRANSITIONS,
      builder.make_layout(config, spec).kept_cells(
        config.topology.environments_per_worker
      ),
    )
    self._pace = pace.Pace()
    self._published_at_s: float | None = None
    self._waiting_since_s: float | None = None  # monotonic
    self._said = False  # that it waits
    self._version = 0  # of the variables; 0: none yet
    self._loads = 0
    # In rounds: batch steps made in this one, and the version with which this
    # worker is through.
    self._made = 0
    self._collected_version = 0

  def run(self) -> None:
    """Collects until the run stops."""
    with link.Link(
      self._control,
      "worker",
      self._index,
      self._report,
      rounds.report_period_s(self._config),
    ) as node_link:
      while not node_link.stopping:
        orders = self._orders(node_link)
        if orders.stop:
          break
        self.step(orders)
      if not self._writer.close(_SETTLE_S):
        logging.info("items that were never confirmed: %d", self._writer.lost)
      self._collector.close()

  def step(self, orders: messages.Command = _GO) -> int:
    """One step of every environment, or a short wait if there can be none.

    Args:
      orders: what the worker is asked to do.

    Returns:
      All environment steps so far.
    """
    self._load_variables()
    if self._may_step(orders):
      before = self._collector.env_steps
      items = self._collector.step()
      if items is not None:
        self._writer.write(*items)
      steps = self._collector.env_steps - before
      self._made += 1
      self._pace.stepped(steps, orders.steps_per_s, time.monotonic())
    return self._collector.env_steps

  def _orders(self, node_link: link.Link) -> messages.Command:
    """What this machine's proxy says, or without one the control node."""
    seat = self._seat
    if seat is None:
      return node_link.command
    flow = seat.flow
    return messages.Command(
      flow is board.Flow.DRAIN,
      flow is board.Flow.PAUSE,
      seat.steps_per_s,
      workers=node_link.command.workers,
    )

  def _may_step(self, orders: messages.Command) -> bool:
    """Whether a step can be made now; waits a little if not."""
    if self._published_at_s is None:
      time.sleep(_IDLE_S)
      return False
    collected = self._has_its_share(orders)
    if orders.paused or collected:
      if self._is_through(self._writer.settle(_WAIT_S)):
        if collected:
          self._collected_version = self._version
        time.sleep(_IDLE_S)
      return False
    wait_s = self._pace.wait_s(orders.steps_per_s, time.monotonic())
    if wait_s > 0:
      time.sleep(min(wait_s, _WAIT_S))
      return False
    return self._is_through(self._writer.wait(_WAIT_S))

  def _has_its_share(self, orders: messages.Command) -> bool:
    """Whether it is others' turn, in rounds."""
    if self._config.mode != "sync":
      return False
    workers = orders.workers or self._config.topology.workers
    return self._made >= rounds.worker_steps(self._config, workers)

  def _is_through(self, through: bool) -> bool:
    """Passes on whether the writer was; says it in the log when it was not."""
    now_s = time.monotonic()
    if through:
      if self._said:
        logging.info("goes on; items lost so far: %d", self._writer.lost)
      self._waiting_since_s, self._said = None, False
      return True
    self._waiting_since_s = self._waiting_since_s or now_s
    if now_s - self._waiting_since_s > _SAY_AFTER_S and not self._said:
      self._said = True
      logging.info("waits for %s", self._writer.waits_for)
    return False

  def _load_variables(self) -> None:
    snapshot = self._variables.poll()
    if snapshot is not None:
      if self._published_at_s is None:
        logging.info("acts on its first variables")
      self._collector.load(snapshot.version, snapshot.variables)
      self._version = snapshot.version
      self._published_at_s = snapshot.published_at_s
      self._loads += 1
      self._made = 0

  def _report(self) -> messages.WorkerReport:
    published_at_s, waiting_since_s = (
      self._published_at_s,
      self._waiting_since_s,
    )
    writer = self._writer
    return messages.WorkerReport(
      env_steps=self._collector.env_steps,
      items_written=writer.written,
      items_confirmed=writer.confirmed,
      items_lost=writer.lost,
      reconnects=max(0, writer.streams - 1),
      variables_version=self._version,
      variable_loads=self._loads,
      collected_version=self._collected_version,
      training_return=self._collector.training_return,
      variables_age_s=published_at_s and time.time() - published_at_s,
      waiting_s=waiting_since_s and time.monotonic() - waiting_since_s,
      waiting_for=writer.waits_for if waiting_since_s else None,
    )
