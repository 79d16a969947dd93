"""Worker node: runs a worker in a node's process or in an external process."""

import contextlib
import threading
import typing

import ml_collections
from acme import specs

from slipway.agents import registry
from slipway.environments import external, hanging, vector
from slipway.launch.control import control_service, messages
from slipway.launch.control import rates as rates_lib
from slipway.launch.nodes import addresses, link, worker
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables
from slipway.replay.transport import control_block

# Number of unconfirmed items from which a worker waits before it writes more.
_MAX_UNCONFIRMED = writer_lib.MAX_IN_FLIGHT // 2
# The same limit for a queue. Items for a queue become outdated while they wait
# in the writer, so only the queue's capacity should bound their number.
_MAX_UNCONFIRMED_FOR_QUEUE = 1


class ExternalParts(typing.NamedTuple):
  """The objects that an external process passes to its `WorkerNode`.

  Attributes:
    index: index of the process among the external ones, from 0.
    handle: handle of the process's slot in the shared control block.
    environment: the environment that the process's own loop steps.
    stop_event: event that stops the worker node.
  """

  index: int
  handle: control_block.WorkerHandle
  environment: vector.VectorEnvironment
  stop_event: threading.Event


class WorkerNode:
  """Node that runs a `Worker` and reports its counts to the control.

  The worker follows the commands of its machine's proxy. Without a proxy, it
  follows those of the control.
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
    """Registers the worker at the control, and makes the worker.

    Args:
      index: index of the worker in the run, from 0.
      data: addresses of the servers or the proxy.
      external_parts: objects of the external process in which this node runs,
        or None if the run has started this node.
    """
    self._name = ("worker", index)
    if external_parts:
      self._name = (messages.EXTERNAL, external_parts.index)
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
        _MAX_UNCONFIRMED_FOR_QUEUE if table.is_queue else _MAX_UNCONFIRMED,
      ),
      data.make_variables_source(self._rates.poll_period_s),
      control.register(*self._name),
      external_parts and external_parts.environment,
    )

  def check_in_step(self) -> bool:
    """Returns whether the worker has to stop, during a step that takes long.

    An external environment calls this method regularly while it waits for its
    loop. The method also replaces a broken stream, because until then the proxy
    admits no connection of the process.
    """
    self._worker.reopen_broken_stream()
    node_link = self._link
    return node_link is not None and (
      node_link.stopping or self._get_command(node_link).stop
    )

  def run(self) -> None:
    """Collects until the run or the external process stops the node."""
    external_parts = self._external_parts
    with link.Link(
      self._control,
      *self._name,
      self._worker.report,
      stop_event=external_parts and external_parts.stop_event,
    ) as node_link:
      self._link = node_link
      # A step of an external process may take any time.
      timeout_s = 0.0 if external_parts else self._step_timeout_s
      with (
        hanging.detect_hanging(timeout_s),
        contextlib.suppress(external.Interrupted),
      ):
        self._collect(node_link)
        if external_parts:
          # The process may disconnect right after an episode's end.
          self._worker.finish_episodes()
      self._worker.close()

  def _collect(self, node_link: link.Link) -> None:
    """Steps the worker until a stop, and reports each round's end at once."""
    collected = 0
    while not node_link.stopping:
      command = self._get_command(node_link)
      if command.stop:
        break
      self._worker.step(command)
      if self._worker.collected_version != collected:
        collected = self._worker.collected_version
        node_link.report_now()  # because the trainer waits for this report

  def _get_command(self, node_link: link.Link) -> messages.Command:
    """Returns the newest command of the proxy, or else of the control."""
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
