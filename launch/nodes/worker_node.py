"""Worker node: runs a worker as a node, or for an external process."""

import contextlib
import threading
import typing

import ml_collections
from acme import specs

from slipway.agents import registry
from slipway.environments import external, hanging, vector
from slipway.launch.nodes import addresses, link, worker
from slipway.launch.orchestration import control_service, messages, stop_order
from slipway.launch.orchestration import rates as rates_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables
from slipway.replay.transport import control_block

# A worker writes further items only while at most this many are unconfirmed.
# Items of a queue become outdated while they wait, so only the queue's capacity
# should bound the number of waiting items.
_UNCONFIRMED = writer_lib.MAX_IN_FLIGHT // 2
_UNCONFIRMED_OF_QUEUE = 1


class ExternalParts(typing.NamedTuple):
  """The objects of a worker node that an external process provides.

  Attributes:
    index: index of the process among the external ones.
    handle: handle of its slot in the proxy's shared control block.
    environment: the environment that the process's own loop steps.
    stop_event: event that stops the node.
  """

  index: int
  handle: control_block.WorkerHandle
  environment: vector.VectorEnvironment
  stop_event: threading.Event


class WorkerNode:
  """A node that runs a worker.

  The worker follows the commands of its proxy, or without a proxy those of the
  control node.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    index: int,
    data: addresses.DataAddresses,
    control: control_service.ControlService,
    external_parts: ExternalParts | None = None,
  ):
    """Registers the worker, and connects it to its table and variables.

    Args:
      config: the whole config.
      spec: specification of one environment.
      index: index of the worker, from 0.
      data: addresses of the servers or the proxy.
      control: client of the control node.
      external_parts: objects of an external process, or None if the worker is
        one of the run's own.
    """
    self._name = ("worker", index)
    if external_parts:
      self._name = (stop_order.EXTERNAL, external_parts.index)
    self._control, self._external_parts = control, external_parts
    self._step_timeout_s = config.environment.step_timeout_s
    self._link: link.Link | None = None
    builder = registry.make_builder(config.agent)
    self._rates = rates_lib.Rates.from_config(config, spec)
    table = self._rates.table
    assert table is not None  # runs without a table have no workers
    self._handle = (
      external_parts.handle
      if external_parts
      else data.open_control_block(index)
    )
    self._worker = worker.Worker(
      config,
      spec,
      builder,
      self._rates,
      index,
      writer_lib.ItemWriter(
        data.make_route(index, self._handle),
        tables.TRANSITIONS,
        table.schema.kept_frame_records(
          config.topology.environments_per_worker
        ),
        _UNCONFIRMED_OF_QUEUE if table.consumed else _UNCONFIRMED,
      ),
      data.make_variables_source(self._rates.poll_period_s),
      control.register(*self._name),
      external_parts and external_parts.environment,
    )

  def check_in_step(self) -> bool:
    """Returns whether to stop; called regularly while a step takes long.

    It also reopens a broken stream, because other connections of the same
    process wait for that.
    """
    self._worker.keep_stream()
    node_link = self._link
    return node_link is not None and (
      node_link.stopping or self._command(node_link).stop
    )

  def run(self) -> None:
    """Collects until the run, or the external process, stops."""
    external_parts = self._external_parts
    with link.Link(
      self._control,
      *self._name,
      self._worker.report,
      self._rates.report_period_s,
      external_parts and external_parts.stop_event,
    ) as node_link:
      self._link = node_link
      # A step of an external process may take any time.
      timeout_s = 0.0 if external_parts else self._step_timeout_s
      with (
        hanging.detect_hanging(timeout_s),
        contextlib.suppress(external.Interrupted),
      ):
        self._collect(node_link)
      self._worker.close()

  def _collect(self, node_link: link.Link) -> None:
    """Steps the worker until it has to stop, and reports each round at once."""
    collected = 0
    while not node_link.stopping:
      command = self._command(node_link)
      if command.stop:
        break
      self._worker.step(command)
      if self._worker.collected_version != collected:
        collected = self._worker.collected_version
        node_link.report_now()  # because the trainer waits for this report

  def _command(self, node_link: link.Link) -> messages.Command:
    """Returns the proxy's command, or without a proxy the control node's."""
    handle = self._handle
    if handle is None:
      return node_link.command
    command = handle.command
    return messages.Command(
      stop=command is control_block.WorkerCommand.DRAIN,
      paused=command is control_block.WorkerCommand.PAUSE,
      steps_per_s=handle.steps_per_s,
      workers=node_link.command.workers,
    )
