"""Proxy node: runs the WorkerProxy of one machine in a separate process."""

import time

from slipway.launch.control import control_service, messages, waits
from slipway.launch.nodes import addresses, link
from slipway.launch.runs import run_status
from slipway.replay import proxy as proxy_lib
from slipway.replay.transport import control_block
from slipway.replay.variables import fetcher as fetcher_lib

# Seconds between two checks of the control's command and the proxy.
_CHECK_PERIOD_S = 0.05
# Seconds that the machine's workers may take to drain when the run stops.
# Closing the proxy takes up to 1 s more: together less than the grace period of
# 4.5 s in `stages`.
_DRAIN_TIMEOUT_S = 3.4


class Proxy:
  """Node that relays a machine's streams to the replay servers.

  It runs a `WorkerProxy`, forwards the control's commands to the machine's
  workers, and reports the proxy's counts. On machines other than the trainer's
  it also fetches the variables.
  """

  def __init__(
    self,
    index: int,
    data: addresses.DataAddresses,
    poll_period_s: float,
    control: control_service.ControlService,
  ):
    """Starts the WorkerProxy.

    Args:
      index: index of the proxy in the run, from 0; each machine has one proxy.
      data: addresses of the replay servers and of the proxy's sockets.
      poll_period_s: shortest time in seconds between two polls of the server
        for new variables.
    """
    self._index, self._data, self._control = index, data, control
    self._proxy = proxy_lib.WorkerProxy(
      data.upstream(0),
      data.proxy_listen(0),
      data.control_block_path,
      data.tls,
      [
        (data.proxy_listen(shard), data.upstream(shard))
        for shard in range(1, len(data.servers))
      ],
    )
    self._proxy.start()
    self._fetcher = None
    if data.remote:
      self._fetcher = fetcher_lib.VariablesFetcher(
        data.variables_path,
        self._proxy.address,
        self._proxy.get_unreachable,
        poll_period_s,
      )

  def run(self) -> None:
    """Serves the machine's workers until the run stops, then drains them."""
    with link.Link(
      self._control, "proxy", self._index, self._report
    ) as node_link:
      while not node_link.stopping:
        self._proxy.check()
        command = node_link.command
        self._proxy.set_command(
          control_block.WorkerCommand.PAUSE
          if command.paused
          else control_block.WorkerCommand.RUN,
          command.steps_per_s,
        )
        due_s = self._fetcher.poll() if self._fetcher else _CHECK_PERIOD_S
        node_link.wait(due_s)
      self._proxy.drain(_DRAIN_TIMEOUT_S)
      if self._fetcher is not None:
        self._fetcher.close()
      self._proxy.close()

  def _report(self) -> messages.ProxyReport:
    """Returns the proxy's current counts, to be sent to the control."""
    stats, upstream = self._proxy.stats(), self._data.upstream(0)
    fetcher, wait = self._fetcher, None
    if fetcher and fetcher.waiting_since_s is not None:
      address = upstream() if callable(upstream) else upstream
      reason = waits.make_server_reason(address)
      wait = waits.Wait(reason, time.time() - fetcher.waiting_since_s)
    published_at_s = fetcher and fetcher.published_at_s
    return messages.ProxyReport(
      counts=run_status.NodeCounts(
        bytes_up=stats.relay.bytes_up,
        bytes_down=stats.relay.bytes_down,
        variables_fetched=fetcher.fetched if fetcher else 0,
        connections_refused=stats.relay.connections_refused,
      ),
      wait=wait,
      connections=stats.relay.connections_open,
      variables_version=fetcher and fetcher.version,
      variables_age_s=published_at_s and time.time() - published_at_s,
      workers={
        self._data.first_worker + index: messages.StreamCounts(*counts)
        for index, counts in stats.workers.items()
        # External processes have higher indices, and report themselves.
        if index < control_block.MAX_WORKERS
      },
      live_workers=len(stats.workers),
    )
