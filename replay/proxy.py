"""Worker proxy: connects a machine's workers to the replay server.

The proxy relays the Reverb streams of all workers of its machine, fetches each
version of the variables once into shared memory, and forwards commands to the
workers. It holds no other state: a proxy that is killed and started again with
the same arguments continues the work.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from slipway.replay.transport import (
  control_block,
  relay,
  relay_admission,
  relay_listener,
  relay_tls,
)
from slipway.replay.variables import shared_variables

# Seconds of one wait for the server, after which the thread checks whether to
# stop.
_FETCH_TIMEOUT_S = 1.0

# Seconds that `close` waits for the fetching thread: an import of TensorFlow
# that is under way has to finish first.
_CLOSE_TIMEOUT_S = 30.0

# Seconds between two checks whether the workers have closed their streams.
_DRAIN_PERIOD_S = 0.01

# Seconds that a drain waits for external processes, whose own loops may not
# notice it for long.
_DRAIN_EXTERNALS_S = 1.0


class ProxyStats(NamedTuple):
  """Counts of a proxy since it was made.

  Attributes:
    relay: counts of the relayed streams, of all shards together.
    workers: counts of each live worker's streams, by the worker's index.
    restarts: proxies that have run on this control block before.
    version: version of the variables in shared memory; 0 before the first.
    published_at_s: unix seconds of that version; None before the first.
    versions_fetched: versions that were copied to shared memory.
    waiting_since_s: unix seconds since which the server has not replied; None
      while it replies.
  """

  relay: relay.RelayStats
  workers: Mapping[int, relay_admission.ClientStats]
  restarts: int
  version: int
  published_at_s: float | None
  versions_fetched: int
  waiting_since_s: float | None


class WorkerProxy:
  """Relay, variables and commands of one machine's workers.

  Runs in threads from `start` to `close`; give it a process of its own.
  """

  def __init__(
    self,
    server_address: str | Callable[[], str | None],
    listen: str,
    variables_path: str,
    control_block_path: str,
    poll_period_s: float = 0.05,
    tls: relay_tls.Tls | None = None,
    shards: Sequence[tuple[str, str | Callable[[], str | None]]] = (),
  ):
    """Checks the arguments, and opens the control block.

    Args:
      server_address: 'host:port' or 'passed:PATH' (see `socket_passing`) of the
        replay server, which need not run yet. With shards: of the first one,
        which has the variables. For a server on another machine: a function
        that returns the address at that machine's `gateway`, or None while it
        is unknown. The relay's thread calls it at each attempt to connect.
      listen: address for the workers, 'unix:PATH' or 'host:port'.
      variables_path: path of the file that workers read variables from; see
        `shared_variables`.
      control_block_path: path of the file by which workers get their commands;
        see `control_block`.
      poll_period_s: seconds between two polls for a new version.
      tls: context for a server behind a gateway, also if its address is given
        as 'host:port'. None: the server is not behind a gateway.
      shards: address for the workers and server address, for each further
        shard.

    Raises:
      ValueError: an argument is invalid, or another proxy uses the control
        block.
    """
    if poll_period_s <= 0:
      raise ValueError(
        f"poll_period_s is {poll_period_s}, so the proxy would poll the server"
        " without a pause; pass a number of seconds above 0."
      )
    self._handle = control_block.ProxyHandle(control_block_path)
    if tls is None and not isinstance(server_address, str):
      tls = relay_tls.INSECURE
    self._relays = [
      relay.Relay(
        where,
        server,
        control_block.ShardAdmission(self._handle, shard),
        upstream_tls=tls,
      )
      for shard, (where, server) in enumerate(
        ((listen, server_address), *shards)
      )
    ]
    self._writer = shared_variables.SharedVariablesWriter(variables_path)
    # Reverb's client supports no TLS, no changing address and no passed socket:
    # for such a server, the proxy fetches variables through its own relay.
    passed = relay_listener.path_of(str(server_address), relay_listener.PASSED)
    direct = tls is None and passed is None
    self._server_address = str(server_address) if direct else None
    self._poll_period_s = poll_period_s
    self._stop = threading.Event()
    self._thread: threading.Thread | None = None
    self._error: BaseException | None = None
    self._version = 0
    self._published_at_s: float | None = None
    self._versions_fetched = 0
    self._waiting_since_s: float | None = None

  @property
  def address(self) -> str:
    """The address for workers; contains the port that was chosen for port 0."""
    return self._relays[0].address

  def start(self) -> None:
    """Starts the relays, and a thread that fetches variables.

    Workers can connect on return. Variables arrive some seconds later: Reverb's
    client imports TensorFlow, five seconds of CPU that the relay does not need,
    so that the fetching thread imports it.

    Raises:
      ValueError: the port or path to listen on is in use.
    """
    with contextlib.ExitStack() as stack:
      for starting in self._relays:
        starting.start()
        stack.callback(starting.close)
      stack.pop_all()  # All relays listen: keep them.
    self._thread = threading.Thread(
      target=self._run, name="variables-proxy", daemon=True
    )
    self._thread.start()

  def set_command(
    self, command: control_block.WorkerCommand, steps_per_s: float = 0.0
  ) -> None:
    """Sets the command of the machine's workers, from their next step on.

    Args:
      command: run, pause or drain.
      steps_per_s: environment steps per second of all workers together; 0: no
        limit. To be set again when the number of workers has changed.
    """
    self._handle.set_command(command, steps_per_s)

  def drain(self, timeout_s: float) -> bool:
    """Commands the workers to exit, and waits until their streams are closed.

    External processes are waited for one second at most.

    Args:
      timeout_s: seconds to wait at most.

    Returns:
      Whether all streams are closed.
    """
    self._handle.set_command(control_block.WorkerCommand.DRAIN, 0.0)
    began_s = time.monotonic()
    while True:
      waited_s = time.monotonic() - began_s
      with_externals = waited_s < _DRAIN_EXTERNALS_S
      if not self._streams_of_workers(with_externals):
        return with_externals or not self._streams_of_workers(True)
      if waited_s >= timeout_s:
        return False
      time.sleep(_DRAIN_PERIOD_S)

  def check(self) -> None:
    """Raises the first error of a thread, if there was one.

    Raises:
      RuntimeError: a thread met an error, which is the cause.
    """
    for running in self._relays:
      running.check()
    if self._error is not None:
      raise RuntimeError(
        f"the proxy at {self.address} has stopped fetching variables:"
        f" {self._error!r}"
      ) from self._error

  def stats(self) -> ProxyStats:
    """Returns the counts; callable from any thread, also after `close`."""
    stats = self._stats()
    return ProxyStats(
      stats,
      {
        index: stats.clients.get(pid, relay_admission.ClientStats(0, 0, 0))
        for index, pid in self._handle.workers().items()
      },
      self._handle.restarts,
      self._version,
      self._published_at_s,
      self._versions_fetched,
      self._waiting_since_s,
    )

  def close(self) -> None:
    """Closes all connections, stops the threads and unlinks the variables.

    The control block stays for the next proxy, until its folder is removed.

    Raises:
      RuntimeError: a thread met an error; everything is closed before.
    """
    thread, self._thread = self._thread, None
    if thread is None:
      return
    self._stop.set()
    try:
      with contextlib.ExitStack() as stack:  # All of them, even if one raises.
        for running in self._relays:
          stack.callback(running.close)
    finally:
      thread.join(_CLOSE_TIMEOUT_S)
      self._handle.close()
    if thread.is_alive():
      raise RuntimeError(
        f"the proxy at {self.address} did not stop fetching variables within"
        f" {_CLOSE_TIMEOUT_S} s; their file stays until this process ends."
      )
    self.check()

  def _stats(self) -> relay.RelayStats:
    return relay.RelayStats.total(each.stats() for each in self._relays)

  def _streams_of_workers(self, with_externals: bool) -> int:
    clients = self._stats().clients
    pids = {
      pid
      for index, pid in self._handle.workers().items()
      if with_externals or index < control_block.MAX_WORKERS
    }
    return sum(clients[pid].streams for pid in pids if pid in clients)

  def _run(self) -> None:
    try:
      # Not at the top: see `start`.
      from slipway.replay.variables import variables

      if self._server_address is not None:
        client = variables.VariablesClient(self._server_address)
      else:
        client = variables.VariablesClient(self.address, self._waits_for)
      while not self._stop.is_set():
        self._poll(client)
        self._stop.wait(self._poll_period_s)
    except BaseException as error:  # `check` raises it.
      self._error = error
    finally:
      self._writer.close()

  def _waits_for(self) -> str | None:
    if self._handle.server_is_reachable:
      return None
    return "the replay server, which this proxy cannot reach"

  def _poll(self, client) -> None:
    try:
      packed = client.poll(timeout_ms=int(_FETCH_TIMEOUT_S * 1_000))
    except (TimeoutError, ConnectionError):
      # The server restarts, or does not run yet: wait for it.
      if self._waiting_since_s is None:
        self._waiting_since_s = time.time()
      return
    self._waiting_since_s = None
    if packed is not None:
      self._writer.write(*packed)
      self._version = packed.version
      self._published_at_s = packed.published_at_s
      self._versions_fetched += 1
