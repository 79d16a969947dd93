"""Worker proxy: what a machine's workers share to reach the replay server.

It relays their Reverb streams, and fetches each version of the variables once
for all of them into shared memory. It holds no other state: one that is killed
and started again with the same arguments goes on where it was.
"""

import threading
import time
from typing import NamedTuple

from replay import relay, shared_variables

# Seconds of one wait for the server, after which the thread looks whether it is
# to end.
_FETCH_TIMEOUT_S = 1.0

# Seconds that `close` waits for the fetching thread: an import of TensorFlow
# that is under way has to end first.
_CLOSE_TIMEOUT_S = 30.0


class ProxyStats(NamedTuple):
  """What the proxy has done since it was made.

  Attributes:
    relay: counts of the relayed streams.
    version: of the variables that workers see; 0 before the first.
    versions_fetched: how many were put into shared memory.
    waiting_since_s: unix seconds since which the server has not answered; None
      while it answers.
  """

  relay: relay.RelayStats
  version: int
  versions_fetched: int
  waiting_since_s: float | None


class WorkerProxy:
  """One for each machine that has workers; give it a process of its own."""

  def __init__(
    self,
    server_address: str,
    listen: str,
    variables_path: str,
    poll_period_s: float = 0.05,
  ):
    """Checks the arguments; opens nothing.

    Args:
      server_address: 'host:port' of the replay server, which need not run yet.
      listen: where workers connect: 'unix:PATH' or 'host:port'.
      variables_path: of the file that workers read variables from; see
        `shared_variables`.
      poll_period_s: seconds between two questions for a new version.

    Raises:
      ValueError: an argument cannot be used.
    """
    if poll_period_s <= 0:
      raise ValueError(
        f"poll_period_s is {poll_period_s}, with which the proxy would ask the"
        " server without a pause; pass a number of seconds above 0."
      )
    self._relay = relay.Relay(listen, server_address)
    self._writer = shared_variables.SharedVariablesWriter(variables_path)
    self._server_address = server_address
    self._poll_period_s = poll_period_s
    self._stop = threading.Event()
    self._thread: threading.Thread | None = None
    self._error: BaseException | None = None
    self._version = 0
    self._versions_fetched = 0
    self._waiting_since_s: float | None = None

  @property
  def address(self) -> str:
    """What workers connect to; has the port that was chosen for port 0."""
    return self._relay.address

  def start(self) -> None:
    """Serves workers on return, and variables some seconds later.

    Reverb's client, which fetches variables, imports TensorFlow: five seconds
    of CPU that the relay does not need. So the import happens in the fetching
    thread, while workers already connect.

    Raises:
      ValueError: the port or path to listen on is in use.
    """
    self._relay.start()
    self._thread = threading.Thread(
      target=self._run, name="variables-proxy", daemon=True
    )
    self._thread.start()

  def check(self) -> None:
    """Raises what went wrong in a thread, if anything did.

    Raises:
      RuntimeError: from the first error of the thread.
    """
    self._relay.check()
    if self._error is not None:
      raise RuntimeError(
        f"the proxy at {self.address} can fetch no more variables:"
        f" {self._error!r}"
      ) from self._error

  def stats(self) -> ProxyStats:
    """The counts now; callable from any thread, also after `close`."""
    return ProxyStats(
      self._relay.stats(),
      self._version,
      self._versions_fetched,
      self._waiting_since_s,
    )

  def close(self) -> None:
    """Closes all connections, ends the threads and unlinks the variables.

    Raises:
      RuntimeError: as `check` does, after all is closed.
    """
    thread, self._thread = self._thread, None
    if thread is None:
      return
    self._stop.set()
    try:
      self._relay.close()
    finally:
      thread.join(_CLOSE_TIMEOUT_S)
    if thread.is_alive():
      raise RuntimeError(
        f"the proxy at {self.address} did not stop fetching variables within"
        f" {_CLOSE_TIMEOUT_S} s; their file stays until this process ends."
      )
    self.check()

  def _run(self) -> None:
    try:
      # Not at the top: see `start`.
      from replay import variables

      client = variables.VariablesClient(self._server_address)
      while not self._stop.is_set():
        self._poll(client)
        self._stop.wait(self._poll_period_s)
    except BaseException as error:  # Handed to the owner by `check`.
      self._error = error
    finally:
      self._writer.close()

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
      self._versions_fetched += 1
