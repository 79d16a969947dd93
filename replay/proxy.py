"""Worker proxy: what a machine's workers share to reach the replay server.

It relays their Reverb streams, fetches each version of the variables once for
all of them into shared memory, and passes on what they are told to do. It holds
no other state: one that is killed and started again with the same arguments
goes on where it was.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from slipway.replay import (
  board,
  relay,
  relay_gate,
  relay_listener,
  relay_tls,
  shared_variables,
)

# Seconds of one wait for the server, after which the thread looks whether it is
# to end.
_FETCH_TIMEOUT_S = 1.0

# Seconds that `close` waits for the fetching thread: an import of TensorFlow
# that is under way has to end first.
_CLOSE_TIMEOUT_S = 30.0

# Seconds between two looks whether the workers have gone.
_DRAIN_PERIOD_S = 0.01

# Seconds that a drain waits for external processes, whose own loops may not
# notice it for long.
_DRAIN_EXTERNALS_S = 1.0


class ProxyStats(NamedTuple):
  """What the proxy has done since it was made.

  Attributes:
    relay: counts of the relayed streams, of all shards together.
    workers: those of each worker that is alive, by its index.
    restarts: proxies that have served at this place before.
    version: of the variables that workers see; 0 before the first.
    published_at_s: unix seconds of that version; None before the first.
    versions_fetched: how many were put into shared memory.
    waiting_since_s: unix seconds since which the server has not answered; None
      while it answers.
  """

  relay: relay.RelayStats
  workers: Mapping[int, relay_gate.ClientStats]
  restarts: int
  version: int
  published_at_s: float | None
  versions_fetched: int
  waiting_since_s: float | None


class WorkerProxy:
  """One for each machine that has workers; give it a process of its own."""

  def __init__(
    self,
    server_address: str | Callable[[], str | None],
    listen: str,
    variables_path: str,
    board_path: str,
    poll_period_s: float = 0.05,
    tls: relay_tls.Tls | None = None,
    shards: Sequence[tuple[str, str | Callable[[], str | None]]] = (),
  ):
    """Checks the arguments; opens nothing.

    Args:
      server_address: 'host:port' of the replay server, which need not run yet,
        or 'passed:PATH' (see `socket_passing`);
        of several the first, which has the variables. Of a server on another
        machine: what tells where that machine's `gateway` offers it now, asked
        with each attempt to connect, in the relay's thread; None is nowhere.
      listen: where workers connect: 'unix:PATH' or 'host:port'.
      variables_path: of the file that workers read variables from; see
        `shared_variables`.
      board_path: of the file by which workers are told what to do; see `board`.
      poll_period_s: seconds between two questions for a new version.
      tls: context for a server behind a gateway, also if its address is given
        as 'host:port'. None: for one that needs none.
      shards: of each further server, where workers connect and its address.

    Raises:
      ValueError: an argument cannot be used.
    """
    if poll_period_s <= 0:
      raise ValueError(
        f"poll_period_s is {poll_period_s}, with which the proxy would ask the"
        " server without a pause; pass a number of seconds above 0."
      )
    self._seat = board.ProxySeat(board_path)
    if tls is None and not isinstance(server_address, str):
      tls = relay_tls.INSECURE
    self._relays = [
      relay.Relay(where, server, self._seat.gate(shard), upstream_tls=tls)
      for shard, (where, server) in enumerate(
        ((listen, server_address), *shards)
      )
    ]
    self._writer = shared_variables.SharedVariablesWriter(variables_path)
    # Reverb's client speaks no TLS, takes one address for good, and no socket
    # that is passed: then the proxy is a client of itself.
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
    """What workers connect to; has the port that was chosen for port 0."""
    return self._relays[0].address

  def start(self) -> None:
    """Serves workers on return, and variables some seconds later.

    Reverb's client, which fetches variables, imports TensorFlow: five seconds
    of CPU that the relay does not need. So the import happens in the fetching
    thread, while workers already connect.

    Raises:
      ValueError: the port or path to listen on is in use.
    """
    with contextlib.ExitStack() as stack:
      for starting in self._relays:
        starting.start()
        stack.callback(starting.close)
      stack.pop_all()  # all listen: they stay
    self._thread = threading.Thread(
      target=self._run, name="variables-proxy", daemon=True
    )
    self._thread.start()

  def direct(self, flow: board.Flow, steps_per_s: float = 0.0) -> None:
    """Tells the machine's workers what to do; they obey at their next step.

    Args:
      flow: run, pause, or end.
      steps_per_s: environment steps a second of all of them together; 0: no
        limit. To be told again when their number has changed.
    """
    self._seat.direct(flow, steps_per_s)

  def drain(self, timeout_s: float) -> bool:
    """Tells the workers to end, and waits until their streams are closed.

    External processes are waited for one second at most.

    Args:
      timeout_s: seconds after which those that are left are not waited for.

    Returns:
      True if all were closed.
    """
    self._seat.direct(board.Flow.DRAIN, 0.0)
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
    """Raises what went wrong in a thread, if anything did.

    Raises:
      RuntimeError: from the first error of the thread.
    """
    for running in self._relays:
      running.check()
    if self._error is not None:
      raise RuntimeError(
        f"the proxy at {self.address} can fetch no more variables:"
        f" {self._error!r}"
      ) from self._error

  def stats(self) -> ProxyStats:
    """The counts now; callable from any thread, also after `close`."""
    stats = self._stats()
    return ProxyStats(
      stats,
      {
        index: stats.clients.get(pid, relay_gate.ClientStats(0, 0, 0))
        for index, pid in self._seat.workers().items()
      },
      self._seat.restarts,
      self._version,
      self._published_at_s,
      self._versions_fetched,
      self._waiting_since_s,
    )

  def close(self) -> None:
    """Closes all connections, ends the threads and unlinks the variables.

    The board stays for a successor; it goes with its folder.

    Raises:
      RuntimeError: as `check` does, after all is closed.
    """
    thread, self._thread = self._thread, None
    if thread is None:
      return
    self._stop.set()
    try:
      with contextlib.ExitStack() as stack:  # all, whatever one raises
        for running in self._relays:
          stack.callback(running.close)
    finally:
      thread.join(_CLOSE_TIMEOUT_S)
      self._seat.close()
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
      for index, pid in self._seat.workers().items()
      if with_externals or index < board.MAX_WORKERS
    }
    return sum(clients[pid].streams for pid in pids if pid in clients)

  def _run(self) -> None:
    try:
      # Not at the top: see `start`.
      from slipway.replay import variables

      if self._server_address is not None:
        client = variables.VariablesClient(self._server_address)
      else:
        client = variables.VariablesClient(self.address, self._waits_for)
      while not self._stop.is_set():
        self._poll(client)
        self._stop.wait(self._poll_period_s)
    except BaseException as error:  # Handed to the owner by `check`.
      self._error = error
    finally:
      self._writer.close()

  def _waits_for(self) -> str | None:
    if self._seat.server_is_reachable:
      return None
    return "the replay server, which this proxy cannot reach"

  def _poll(self, client) -> None:
    try:
      packed = client.poll(timeout_ms=int(_FETCH_TIMEOUT_S * 1_000))
    except (TimeoutError, ConnectionError):
      # The server is restarted, or not there yet: wait for it.
      if self._waiting_since_s is None:
        self._waiting_since_s = time.time()
      return
    self._waiting_since_s = None
    if packed is not None:
      self._writer.write(*packed)
      self._version = packed.version
      self._published_at_s = packed.published_at_s
      self._versions_fetched += 1
