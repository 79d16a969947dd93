"""The worker node: a worker in a process of its own, or a thread."""

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

# Items that may be unconfirmed when more are written. Those of a queue get old
# while they wait, and its capacity shall bound how many wait.
_UNCONFIRMED = writer_lib.MAX_IN_FLIGHT // 2
_UNCONFIRMED_OF_QUEUE = 1


class External(typing.NamedTuple):
  """What replaces a worker's own parts where an external process collects.

  Attributes:
    index: of the process among the external ones.
    handle: of its place in the proxy's shared control block.
    environment: that the process's own loop steps.
    stop_event: ends the node when it is set.
  """

  index: int
  handle: control_block.WorkerHandle
  environment: vector.VectorEnvironment
  stop_event: threading.Event


class WorkerNode:
  """Runs a worker by the commands of its proxy, or of the control node."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    index: int,
    data: addresses.DataAddresses,
    control: control_service.ControlService,
    outside: External | None = None,
  ):
    """Makes the worker; it continues where a predecessor was killed.

    Args:
      config: the whole config.
      spec: of one environment.
      index: of this worker, from 0.
      data: where to write to, and where variables come from.
      control: client of the control node.
      outside: of an external process; None: the worker is one of the run's.
    """
    self._name = ("worker", index)
    if outside:
      self._name = (stop_order.EXTERNAL, outside.index)
    self._control, self._outside = control, outside
    self._step_timeout_s = config.environment.step_timeout_s
    self._link: link.Link | None = None
    builder = registry.make_builder(config.agent)
    self._rates = rates_lib.Rates.from_config(config, spec)
    table = self._rates.table
    assert table is not None  # runs without a table have no workers
    self._handle = outside.handle if outside else data.open_control_block(index)
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
      outside and outside.environment,
    )

  def check_in_step(self) -> bool:
    """Returns whether to stop; called now and then in a step of another loop.

    Its stream is opened again if it has broken: other connections of the same
    process wait for that.
    """
    self._worker.keep_stream()
    node_link = self._link
    return node_link is not None and (
      node_link.stopping or self._command(node_link).stop
    )

  def run(self) -> None:
    """Collects until the run stops."""
    outside = self._outside
    with link.Link(
      self._control,
      *self._name,
      self._worker.report,
      self._rates.report_period_s,
      outside and outside.stop_event,
    ) as node_link:
      self._link = node_link
      # The loop of an external process may take any time for a step.
      timeout_s = 0.0 if outside else self._step_timeout_s
      with (
        hanging.detect_hanging(timeout_s),
        contextlib.suppress(external.Interrupted),
      ):
        self._collect(node_link)
      self._worker.close()

  def _collect(self, node_link: link.Link) -> None:
    collected = 0
    while not node_link.stopping:
      command = self._command(node_link)
      if command.stop:
        break
      self._worker.step(command)
      if self._worker.collected_version != collected:
        collected = self._worker.collected_version
        node_link.report_now()  # the trainer waits for it

  def _command(self, node_link: link.Link) -> messages.Command:
    """Returns the command of this machine's proxy, if there is one."""
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
