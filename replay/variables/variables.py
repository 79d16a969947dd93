"""Variables in Reverb: their table, the trainer's publisher, and the clients.

The table holds one item, the newest version, as a header and a blob of bytes
(see `variable_packing`). The trainer puts versions into its own machine's
shared memory, and sends them to the table if others read it: the fetchers of
other machines, or workers without a proxy.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from slipway.replay.transport import blocking_call, routes
from slipway.replay.variables import (
  poll_schedule,
  shared_variables,
  variable_packing,
)

# Name of the Reverb table with the variables.
TABLE = "variables"

# Timeout in seconds of a fetch's request for the table's counts. Reverb takes
# whole seconds only.
_INFO_TIMEOUT_S = 2


class PackedVariables(NamedTuple):
  """One version of the variables, packed by `variable_packing.pack`.

  Attributes: as `VersionedVariables`, and header and blob, uint8 [...].
  """

  version: int
  published_at_s: float
  header: np.ndarray
  blob: np.ndarray


def make_table() -> reverb.Table:
  """Makes the Reverb table of the variables.

  The table holds only the newest version, and never blocks inserts. Samples
  block until the first version is published.
  """
  return reverb.Table(
    name=TABLE,
    sampler=reverb.selectors.Fifo(),
    remover=reverb.selectors.Fifo(),
    max_size=1,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature={
      "version": tf.TensorSpec([], tf.int64),
      "published_at_s": tf.TensorSpec([], tf.float64),
      "header": tf.TensorSpec([None], tf.uint8),
      "blob": tf.TensorSpec([None], tf.uint8),
    },
  )


class VariablesPublisher:
  """Publisher of variables; not thread-safe.

  Each table must have only one publisher.
  """

  def __init__(
    self,
    server_address: str | None,
    first_version: int = 1,
    timeout_ms: int = 30_000,
    shared_path: str | None = None,
  ):
    """Makes a publisher, without opening a connection.

    Args:
      server_address: address of the server; None: no node reads its table.
      first_version: number of the first published version, at least 1; a
        resumed trainer continues from its checkpoint.
      timeout_ms: milliseconds that `publish` waits for the server.
      shared_path: path of the machine's shared variables, or None if it has
        none. Its readers have a version 5 ms before they could have fetched it
        from the server, a tenth of a round of PPO on CartPole.
    """
    self._address = server_address
    self._client = None
    if server_address is not None:
      self._client = reverb.Client(server_address)
    self._writer: reverb.TrajectoryWriter | None = None
    self._sizes = (-1, -1)  # bytes of header and blob that the writer is for
    self._next_version = first_version
    self._timeout_ms = timeout_ms
    self._shared: shared_variables.SharedVariablesWriter | None = None
    if shared_path is not None:
      self._shared = shared_variables.SharedVariablesWriter(shared_path)

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Publishes variables as a new version; waits until the server has it.

    Returns:
      The version number: that of the last call plus 1.

    Raises:
      ValueError: an array's dtype cannot be sent.
      OSError: the memory of the shared variables is full.
      ConnectionError: the server did not confirm the version in time. Its
        number stays used. Reverb sends it again once the server is up.
    """
    header, blob = variable_packing.pack(variables)
    packed = PackedVariables(self._next_version, time.time(), header, blob)
    self._next_version += 1
    if self._shared is not None:
      self._shared.write(*packed)
    if self._client is not None:
      self._send(self._client, packed)
    return packed.version

  def close(self) -> None:
    """Closes the stream to the server, and deletes the shared variables."""
    self._close_writer()
    if self._shared is not None:
      self._shared.close()

  def _send(self, client: reverb.Client, packed: PackedVariables) -> None:
    """Sends a version to the server, and waits until it is confirmed."""
    writer = self._open_writer(client, packed)
    writer.append(packed._asdict())
    columns = writer.history
    item = {name: column[-1] for name, column in columns.items()}
    writer.create_item(TABLE, priority=1.0, trajectory=item)
    try:
      writer.flush(timeout_ms=self._timeout_ms)
    except (RuntimeError, reverb.errors.ReverbError) as error:
      raise ConnectionError(
        f"version {packed.version} of the variables was not confirmed by"
        f" {self._address} within {self._timeout_ms} ms, so workers keep an"
        f" older one; is the replay server running? ({error})"
      ) from error

  def _close_writer(self) -> None:
    """Closes the stream to the server."""
    if self._writer is not None:
      self._writer.close()
    self._writer = None

  def _open_writer(
    self, client: reverb.Client, packed: PackedVariables
  ) -> reverb.TrajectoryWriter:
    """Returns a writer for a version's sizes; a new one if they differ."""
    sizes = packed.header.size, packed.blob.size
    if self._writer is None or sizes != self._sizes:
      self._close_writer()
      # Validation is off, because it would call the server without a timeout.
      self._writer = client.trajectory_writer(
        num_keep_alive_refs=1, validate_items=False
      )
      self._sizes = sizes
    return self._writer


class VariablesClient:
  """Client that fetches new versions of the variables; not thread-safe.

  Each poll reads the table's count of inserts (0.2 ms). It samples the item
  only if the count has changed or the server may have restarted.
  """

  def __init__(
    self, address: str, waits_for: Callable[[], str | None] | None = None
  ):
    """Stores the arguments; opens no connection.

    Args:
      address: 'host:port' of the Reverb server, or any address that a Reverb
        client takes if `waits_for` is given.
      waits_for: describes what is down if the server cannot be reached, or
        returns None. None: the client attempts to connect to the address.
    """
    self._address = address
    self._waits_for = waits_for or routes.DirectRoute(address).waits_for
    self._client: reverb.Client | None = None  # from the first reply on
    self._fetch: blocking_call.BlockingCall[PackedVariables | None] | None = (
      None
    )
    self._inserts = -1  # count of inserts at the last sample
    self._uptime_ms = 0  # of the table, at the last poll
    self._identity = (0, 0.0)  # number and time of the last version

  def poll(self, timeout_ms: int = 1_000) -> PackedVariables | None:
    """Fetches the newest version if it has changed since the last call.

    Args:
      timeout_ms: milliseconds to wait for the server. After a timeout, the next
        poll waits for the reply to the same request.

    Returns:
      The version; None: it has not changed, or no version is published yet.

    Raises:
      TimeoutError: the server did not reply in time.
      ConnectionError: the server cannot be reached.
      ValueError: the server has no table of variables.
    """
    if self._fetch is None:
      self._fetch = blocking_call.BlockingCall(self._fetch_newest)
    if not self._fetch.wait(timeout_ms / 1_000):
      self._inserts = -1  # The reply may come from a restarted server.
      raise TimeoutError(
        f"{self._address} sent no variables within {timeout_ms} ms; is the"
        " replay server running?"
      )
    fetch, self._fetch = self._fetch, None
    snapshot = fetch.result()
    if snapshot is None or snapshot[:2] == self._identity:
      return None
    self._identity = snapshot[:2]
    return snapshot

  def _fetch_newest(self) -> PackedVariables | None:
    """Samples the table's item; runs in the thread of a fetch."""
    client = self._client
    if client is None:
      if (reason := self._waits_for()) is not None:
        raise ConnectionError(f"no variables can be fetched from {reason}")
      client = reverb.Client(self._address)
    # A client that has failed is dropped: its channel would connect again after
    # longer and longer delays, and new clients would share them.
    self._client = None
    try:
      tables = client.server_info(_INFO_TIMEOUT_S)
    except (RuntimeError, reverb.errors.ReverbError) as error:
      self._inserts = -1  # A restarted server may have the same count.
      raise ConnectionError(
        f"{self._address} does not reply; is the replay server running?"
        f" ({error})"
      ) from error
    if TABLE not in tables:
      raise ValueError(
        f"{self._address} has the tables {sorted(tables)} and no {TABLE!r}, so"
        " no variables can be fetched; add variables.make_table() to the"
        " server, or give another address."
      )
    info = tables[TABLE]
    times = info.table_worker_time.ListFields()
    uptime_ms, last_ms = sum(ms for _, ms in times), self._uptime_ms
    self._uptime_ms = uptime_ms
    completed = info.rate_limiter_info.insert_stats.completed
    same = completed == self._inserts and uptime_ms >= last_ms
    if info.current_size == 0 or same:
      self._inserts = completed
      self._client = client
      return None
    sampler = client.sample(
      TABLE, emit_timesteps=False, unpack_as_table_signature=True
    )
    try:
      data: Any = next(sampler).data
    except (RuntimeError, reverb.errors.ReverbError) as error:
      raise ConnectionError(
        f"{self._address} disconnected while it sent variables ({error})"
      ) from error
    self._inserts = completed
    self._client = client
    return PackedVariables(
      int(data["version"]),
      float(data["published_at_s"]),
      data["header"],
      data["blob"],
    )


class ServerVariables:
  """Reader of variables from the server, for a worker without a proxy.

  The interface is that of `shared_variables.SharedVariables`.
  """

  def __init__(
    self, address: str, period_s: float = 0.1, timeout_ms: int = 1_000
  ):
    """Stores the arguments; opens no connection.

    Args:
      address: 'host:port' of the Reverb server.
      period_s: shortest time in seconds between two requests.
      timeout_ms: milliseconds that a poll waits for the server, unless the last
        poll got no reply.
    """
    self._client = VariablesClient(address)
    self._polls = poll_schedule.PollSchedule(period_s)
    self._timeout_ms = timeout_ms
    self._next_s = time.monotonic()
    self._last_poll_failed = False  # no reply from the server

  def poll(self) -> variable_packing.VersionedVariables | None:
    """Returns the newest version if it has changed; see `SharedVariables.poll`.

    None also while the last request is less than `period_s` ago, or the server
    is down.

    Raises:
      ValueError: the server has no table of variables.
    """
    now_s = time.monotonic()
    if now_s < self._next_s:
      return None
    self._next_s = now_s + self._polls.period_s
    timeout_ms = 0 if self._last_poll_failed else self._timeout_ms
    try:
      packed = self._client.poll(timeout_ms)
    except (TimeoutError, ConnectionError):
      self._last_poll_failed = True
      return None
    self._last_poll_failed = False
    if packed is None:
      return None
    self._polls.record_version()
    variables = variable_packing.unpack(packed.header, packed.blob)
    return variable_packing.VersionedVariables(*packed[:2], variables)
