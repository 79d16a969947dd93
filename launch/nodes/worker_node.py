"""The worker node: a worker in a process of its own, or a thread."""

import ml_collections
from acme import specs

from slipway.agents import registry
from slipway.launch.nodes import addresses, link, worker
from slipway.launch.orchestration import control_service, messages
from slipway.launch.orchestration import rates as rates_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables
from slipway.replay.transport import control_block

# Items that may be unconfirmed when more are written. Those of a queue get old
# while they wait, and its capacity shall bound how many wait.
_UNCONFIRMED = writer_lib.MAX_IN_FLIGHT // 2
_UNCONFIRMED_OF_QUEUE = 1


class WorkerNode:
  """Runs a worker by the commands of its proxy, or of the control node."""

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    spec: specs.EnvironmentSpec,
    index: int,
    data: addresses.DataAddresses,
    control: control_service.ControlService,
  ):
    """Makes the worker; it continues where a predecessor was killed.

    Args:
      config: the whole config.
      spec: of one environment.
      index: of this worker, from 0.
      data: where to write to, and where variables come from.
      control: client of the control node.
    """
    self._index, self._control = index, control
    builder = registry.make_builder(config.agent)
    self._rates = rates_lib.Rates.from_config(config, spec)
    table = self._rates.table
    assert table is not None  # runs without a table have no workers
    self._handle = data.open_control_block(index)
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
      control.register("worker", index),
    )

  def run(self) -> None:
    """Collects until the run stops."""
    with link.Link(
      self._control,
      "worker",
      self._index,
      self._worker.report,
      self._rates.report_period_s,
    ) as node_link:
      collected = 0
      while not node_link.stopping:
        command = self._command(node_link)
        if command.stop:
          break
        self._worker.step(command)
        if self._worker.collected_version != collected:
          collected = self._worker.collected_version
          node_link.report_now()  # the trainer waits for it
      self._worker.close()

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
