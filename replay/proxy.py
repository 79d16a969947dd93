"""Worker proxy: connects a machine's workers to the replay server.

The proxy relays the Reverb streams of all workers of its machine, and forwards
commands to the workers. On machines other than the trainer's, it also fetches
each version of the variables once into shared memory. It holds no other state,
so a proxy can be killed and restarted with the same arguments.
"""

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from slipway.replay.transport import (
  control_block,
  relay_listener,
  relay_tls,
)
from slipway.replay.transport import relay as relay_lib
from slipway.replay.variables import poll_schedule, shared_variables

# Timeout of one fetch of variables, in seconds. Between two fetches, the thread
# checks whether it has to stop.
_FETCH_TIMEOUT_S = 1.0

# Seconds that `WorkerProxy.close` waits for the thread that fetches variables.
# It is long because an import of TensorFlow in that thread has to finish first.
_CLOSE_TIMEOUT_S = 30.0

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
    version: version of the variables that this proxy has put into shared
      memory; 0 before the first.
    published_at_s: unix time in seconds at which the trainer published
      `version`; None before the first version.
    versions_fetched: number of versions that were copied to shared memory.
    waiting_since_s: unix time in seconds since which the server has not
      replied; None while it replies.
  """

  relay: relay_lib.RelayStats
  workers: Mapping[int, relay_lib.ClientStats]
  restarts: int
  version: int
  published_at_s: float | None
  versions_fetched: int
  waiting_since_s: float | None


class WorkerProxy:
  """Proxy that connects the workers of one machine to the replay servers.

  The proxy relays the workers' Reverb streams, forwards commands, and copies
  the variables to shared memory unless the trainer does so. Its threads run
  from `start` to `close`. It should run in a separate process.
  """

  def __init__(
    self,
    server_address: str | Callable[[], str | None],
    listen: str,
    variables_path: str | None,
    control_block_path: str,
    poll_period_s: float = 0.05,
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
      variables_path: path of the file that workers read variables from; see
        `shared_variables`. None: the trainer, on this machine, writes that
        file, so the proxy fetches no variables.
      control_block_path: path of the file that workers read commands from; see
        `control_block`.
      poll_period_s: shortest time in seconds between two polls for a new
        version; see `poll_schedule`.
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
    self._writer: shared_variables.SharedVariablesWriter | None = None
    if variables_path is not None:
      self._writer = shared_variables.SharedVariablesWriter(variables_path)
    # Reverb's client supports no TLS, no changing address and no passed socket:
    # for such a server, the proxy fetches variables through its own relay.
    passed = relay_listener.path_of(str(server_address), relay_listener.PASSED)
    direct = tls is None and passed is None
    self._server_address = str(server_address) if direct else None
    self._polls = poll_schedule.PollSchedule(poll_period_s)
    self._stop = threading.Event()
    self._is_open = False
    self._thread: threading.Thread | None = None
    self._error: BaseException | None = None
    self._version = 0
    self._published_at_s: float | None = None
    self._versions_fetched = 0
    self._waiting_since_s: float | None = None

  @property
  def address(self) -> str:
    """Address that workers connect to, with the actual port if 0 was given."""
    return self._relays[0].address

  def start(self) -> None:
    """Starts the relays, and the thread that fetches variables, if any.

    Workers can connect on return. Variables arrive some seconds later, because
    the thread first imports TensorFlow for Reverb's client (5 s of CPU time).

    Raises:
      ValueError: the port or path to listen on is in use.
    """
    with contextlib.ExitStack() as stack:
      for starting in self._relays:
        starting.start()
        stack.callback(starting.close)
      stack.pop_all()  # All relays listen: keep them.
    self._is_open = True
    if self._writer is None:
      return
    self._thread = threading.Thread(
      target=self._run,
      args=(self._writer,),
      name="variables-proxy",
      daemon=True,
    )
    self._thread.start()

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
    if self._error is not None:
      raise RuntimeError(
        f"the proxy at {self.address} has stopped fetching variables:"
        f" {self._error!r}"
      ) from self._error

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
      self._version,
      self._published_at_s,
      self._versions_fetched,
      self._waiting_since_s,
    )

  def close(self) -> None:
    """Closes connections, stops the threads, and deletes the variables file.

    The file of the control block stays for the next proxy.

    Raises:
      RuntimeError: a thread failed, or did not stop in time. All connections
        are closed nevertheless.
    """
    if not self._is_open:
      return
    self._is_open = False
    self._stop.set()
    try:
      with contextlib.ExitStack() as stack:  # All of them, even if one raises.
        for running in self._relays:
          stack.callback(running.close)
    finally:
      if self._thread is not None:
        self._thread.join(_CLOSE_TIMEOUT_S)
      self._handle.close()
    if self._thread is not None and self._thread.is_alive():
      raise RuntimeError(
        f"the proxy at {self.address} did not stop fetching variables within"
        f" {_CLOSE_TIMEOUT_S} s; their file stays until this process ends."
      )
    self.check()

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

  def _run(self, writer: shared_variables.SharedVariablesWriter) -> None:
    """Fetches variables until `close`, in the thread that `start` has made."""
    try:
      # Not at the top: see `start`.
      from slipway.replay.variables import variables

      if self._server_address is not None:
        client = variables.VariablesClient(self._server_address)
      else:
        client = variables.VariablesClient(
          self.address, self._unreachable_server
        )
      while not self._stop.is_set():
        self._fetch_once(client, writer)
        self._stop.wait(self._polls.period_s)
    except BaseException as error:  # `check` raises it.
      self._error = error
    finally:
      writer.close()

  def _unreachable_server(self) -> str | None:
    """Returns a description of the server if it is unreachable, else None."""
    if self._handle.server_is_reachable:
      return None
    return "the replay server, which this proxy cannot reach"

  def _fetch_once(self, client, writer) -> None:
    """Copies the newest variables to shared memory, if they have changed."""
    try:
      packed = client.poll(timeout_ms=int(_FETCH_TIMEOUT_S * 1_000))
    except (TimeoutError, ConnectionError):
      # The server restarts, or does not run yet: wait for it.
      if self._waiting_since_s is None:
        self._waiting_since_s = time.time()
      return
    self._waiting_since_s = None
    if packed is not None:
      self._polls.record_version()
      writer.write(*packed)
      self._version = packed.version
      self._published_at_s = packed.published_at_s
      self._versions_fetched += 1
