"""Worker proxy: connects a machine's workers to the replay server.

The proxy relays the Reverb streams of all workers of its machine, and forwards
commands to the workers. It holds no other state, so a proxy can be killed and
restarted with the same arguments.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from slipway.replay.transport import control_block, relay_tls
from slipway.replay.transport import relay as relay_lib

# Seconds between two checks of `WorkerProxy.drain` whether the workers have
# closed their streams.
_DRAIN_PERIOD_S = 0.01

# Seconds that `WorkerProxy.drain` waits for external processes. It is short
# because their own loops may not read the command for a long time.
_DRAIN_EXTERNALS_S = 1.0


class ProxyStats(NamedTuple):
  """Statistics of a `WorkerProxy` since its construction.

  Attributes:
    relay: statistics of all relayed streams, summed over the shards.
    workers: statistics of each live worker's streams, by the worker's index.
    restarts: number of earlier proxies that used the same control block.
  """

  relay: relay_lib.RelayStats
  workers: Mapping[int, relay_lib.ClientStats]
  restarts: int


class WorkerProxy:
  """Proxy that connects the workers of one machine to the replay servers.

  The proxy relays the workers' Reverb streams, and forwards commands. Its
  threads run from `start` to `close`. It should run in a separate process.
  """

  def __init__(
    self,
    server_address: str | Callable[[], str | None],
    listen: str,
    control_block_path: str,
    tls: relay_tls.Tls | None = None,
    shards: Sequence[tuple[str, str | Callable[[], str | None]]] = (),
  ):
    """Checks the arguments and opens the control block; starts no thread.

    Args:
      server_address: 'host:port' or 'passed:PATH' (see `socket_passing`) of the
        first replay server, which also has the variables. The server need not
        run yet. For a server on another machine: a function that returns the
        address at that machine's `gateway`, or None while it is unknown. The
        relay's thread calls the function at each attempt to connect.
      listen: 'unix:PATH' or 'host:port', on which the proxy accepts workers.
      control_block_path: path of the file that workers read commands from; see
        `control_block`.
      tls: context, or `relay_tls.INSECURE`, for a server behind a gateway.
        None: the server is not behind a gateway, or it is and `server_address`
        is a function, which implies INSECURE.

    Raises:
      ValueError: an argument is invalid, or another proxy uses the control
        block.
    """
    self._handle = control_block.ProxyHandle(control_block_path)
    if tls is None and not isinstance(server_address, str):
      tls = relay_tls.INSECURE
    self._relays = [
      relay_lib.Relay(
        where,
        server,
        relay_lib.Admission(
          self._handle.admit,
          self._handle.mark_broken,
          functools.partial(self._handle.set_reachable, shard),
        ),
        upstream_tls=tls,
      )
      for shard, (where, server) in enumerate(
        ((listen, server_address), *shards)
      )
    ]

  @property
  def address(self) -> str:
    """Address that workers connect to, with the actual port if 0 was given."""
    return self._relays[0].address

  def start(self) -> None:
    """Starts the relays; workers can connect on return.

    Raises:
      ValueError: the port or path to listen on is in use.
    """
    with contextlib.ExitStack() as stack:
      for starting in self._relays:
        starting.start()
        stack.callback(starting.close)
      stack.pop_all()  # All relays listen: keep them.

  def set_command(
    self, command: control_block.WorkerCommand, steps_per_s: float = 0.0
  ) -> None:
    """Sets the command that all workers of the machine read at each step.

    Args:
      steps_per_s: limit of environment steps per second, summed over the live
        workers; 0: no limit. Set it again when the number of workers changes.
    """
    self._handle.set_command(command, steps_per_s)

  def drain(self, timeout_s: float) -> bool:
    """Sends DRAIN to the workers, and waits until they close their streams.

    The wait for external processes takes at most one second of the timeout.
    """
    self._handle.set_command(control_block.WorkerCommand.DRAIN, 0.0)
    began_s = time.monotonic()
    while True:
      waited_s = time.monotonic() - began_s
      with_externals = waited_s < _DRAIN_EXTERNALS_S
      if not self._count_open_streams(with_externals):
        return with_externals or not self._count_open_streams(True)
      if waited_s >= timeout_s:
        return False
      time.sleep(_DRAIN_PERIOD_S)

  def check(self) -> None:
    """Raises RuntimeError if one of the proxy's threads has failed."""
    for running in self._relays:
      running.check()

  def get_unreachable(self) -> str | None:
    """Describes the first replay server if it is unreachable, else None."""
    if self._handle.server_is_reachable:
      return None
    return "the replay server, which this proxy cannot reach"

  def stats(self) -> ProxyStats:
    """Returns the statistics; callable from any thread, also after `close`."""
    stats = self._relay_stats()
    return ProxyStats(
      stats,
      {
        index: stats.clients.get(pid, relay_lib.ClientStats())
        for index, pid in self._handle.workers().items()
      },
      self._handle.restarts,
    )

  def close(self) -> None:
    """Closes connections, and stops the threads; does nothing a second time.

    The file of the control block stays for the next proxy.

    Raises:
      RuntimeError: a thread failed, or did not stop in time. All connections
        are closed nevertheless.
    """
    with contextlib.ExitStack() as stack:  # All of them, even if one raises.
      stack.callback(self._handle.close)
      for running in self._relays:
        stack.callback(running.close)

  def _relay_stats(self) -> relay_lib.RelayStats:
    return relay_lib.RelayStats.total(each.stats() for each in self._relays)

  def _count_open_streams(self, with_externals: bool) -> int:
    clients = self._relay_stats().clients
    pids = {
      pid
      for index, pid in self._handle.workers().items()
      if with_externals or index < control_block.MAX_WORKERS
    }
    return sum(clients[pid].streams for pid in pids if pid in clients)
