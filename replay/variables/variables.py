"""Variables: their Reverb table, the trainer's publisher, and its readers.

The table holds one item, the newest version, as a header and a blob of bytes
(see `variable_packing`). The trainer publishes; a machine's proxy fetches each
version once, or a worker without a proxy fetches it itself.

```python
server = reverb.Server([variables.make_table()])
publisher = variables.VariablesPublisher(f'localhost:{server.port}')
source = variables.ServerVariables(f'localhost:{server.port}')
publisher.publish({'w': w})
snapshot = source.poll()
```
"""

import atexit
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import reverb
import tensorflow as tf

from slipway.replay.transport import routes
from slipway.replay.variables import variable_packing

TABLE = "variables"

# Seconds that one question to the server may take in a fetch's own thread.
# Reverb counts them in whole seconds.
_INFO_TIMEOUT_S = 2


class PackedSnapshot(NamedTuple):
  """One version as it travels; header uint8 [H], blob uint8 [B]."""

  version: int
  published_at_s: float
  header: np.ndarray
  blob: np.ndarray


def make_table() -> reverb.Table:
  """A table of one item, the newest version, which is sampled at any rate."""
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
  """Puts versions into the table; one for each table, used by one thread."""

  def __init__(
    self,
    server_address: str,
    first_version: int = 1,
    timeout_ms: int = 30_000,
  ):
    """Does not connect yet.

    Args:
      server_address: of the server that has the table.
      first_version: of the first `publish`; a resumed trainer goes on from its
        checkpoint.
      timeout_ms: how long `publish` waits for the server.

    Raises:
      ValueError: `first_version` is below 1.
    """
    if first_version < 1:
      raise ValueError(
        f"first_version is {first_version}, but versions count from 1 and"
        " readers take lower ones for none; pass 1 or more."
      )
    self._address = server_address
    self._client = reverb.Client(server_address)
    self._writer: reverb.TrajectoryWriter | None = None
    self._sizes = (-1, -1)  # of the header and the blob that it takes
    self._next_version = first_version
    self._timeout_ms = timeout_ms

  def publish(self, variables: Mapping[str, np.ndarray]) -> int:
    """Makes the variables the newest version.

    Args:
      variables: arrays by name.

    Returns:
      The version, one more than the last one.

    Raises:
      ValueError: an array's dtype cannot be sent.
      ConnectionError: the server did not confirm in time. The version counts as
        used, and arrives by itself if the server comes back.
    """
    header, blob = variable_packing.pack(variables)
    version = self._next_version
    self._next_version += 1
    writer = self._writer_of(header.size, blob.size)
    writer.append(
      {
        "version": np.int64(version),
        "published_at_s": np.float64(time.time()),
        "header": header,
        "blob": blob,
      }
    )
    columns = writer.history
    item = {name: column[-1] for name, column in columns.items()}
    writer.create_item(TABLE, priority=1.0, trajectory=item)
    try:
      writer.flush(timeout_ms=self._timeout_ms)
    except (RuntimeError, reverb.errors.ReverbError) as error:
      raise ConnectionError(
        f"version {version} of the variables was not confirmed by"
        f" {self._address} within {self._timeout_ms} ms, so workers go on with"
        f" an older one; is the replay server running? ({error})"
      ) from error
    return version

  def close(self) -> None:
    """Ends the writer's stream."""
    if self._writer is not None:
      self._writer.close()
    self._writer = None

  def _writer_of(self, *sizes: int) -> reverb.TrajectoryWriter:
    """The last writer, which is faster, unless the sizes have changed.

    The first append of a Reverb writer fixes the shape of each column.
    """
    if self._writer is None or sizes != self._sizes:
      self.close()
      # To validate items, Reverb asks the server, without a timeout.
      self._writer = self._client.trajectory_writer(
        num_keep_alive_refs=1, validate_items=False
      )
      self._sizes = sizes
    return self._writer


class _Fetch(threading.Thread):
  """One question to a server, in a thread that its asker need not wait for.

  Reverb's `sample` has no timeout: against a server that died it blocks until
  one is back at the address. As a daemon it does not keep the process alive.
  """

  def __init__(self, function):
    super().__init__(name="variables-fetch", daemon=True)
    self._function = function
    self._result: PackedSnapshot | None = None
    self._error: Exception | None = None
    self.start()

  def run(self):
    try:
      self._result = self._function()
    except Exception as error:  # Handed to the asker, who is its owner.
      self._error = error

  def result(self) -> PackedSnapshot | None:
    """The answer of a fetch that has ended; raises what it raised."""
    if self._error is not None:
      raise self._error
    return self._result


def _wait_for_fetches() -> None:
  """A process that ends while a thread is in Reverb's C++ is aborted."""
  for thread in threading.enumerate():
    if isinstance(thread, _Fetch):
      thread.join(_INFO_TIMEOUT_S + 1)


atexit.register(_wait_for_fetches)


class VariablesClient:
  """Fetches versions from the table, each once; used by one thread.

  Each poll asks for the table's count of inserts (0.2 ms) and samples the item
  only if that moved, or if the server may have been another one meanwhile.
  """

  def __init__(
    self, address: str, waits_for: Callable[[], str | None] | None = None
  ):
    """Does not connect yet.

    Args:
      address: 'host:port' of the Reverb server; with `waits_for` also another
        one that a Reverb client takes.
      waits_for: says what a new client would have to wait for, None where it
        need not. By default the server itself is asked, straight.

    Raises:
      ValueError: the address has another form.
    """
    self._address = address
    self._waits_for = waits_for or routes.DirectRoute(address).waits_for
    self._client: reverb.Client | None = None  # from the first answer on
    self._fetch: _Fetch | None = None
    self._inserts = -1  # that the table had seen at the last sample
    self._uptime_ms = 0  # of the table at the last poll
    self._identity = (0, 0.0)  # version and time of the last that was returned

  def poll(self, timeout_ms: int = 1_000) -> PackedSnapshot | None:
    """The newest version, if it is another one than was last returned.

    Args:
      timeout_ms: how long to wait for the server. What was asked for is not
        lost after that: the next poll waits for the same answer.

    Returns:
      The version, or None: no other one, or none published yet.

    Raises:
      TimeoutError: no answer in time.
      ConnectionError: the server cannot be reached.
      ValueError: the server has no table of variables.
    """
    if self._fetch is None:
      self._fetch = _Fetch(self._ask)
    self._fetch.join(timeout_ms / 1_000)
    if self._fetch.is_alive():
      self._inserts = -1  # The answer may come from the server's successor.
      raise TimeoutError(
        f"{self._address} did not tell of variables within {timeout_ms} ms;"
        " is the replay server running?"
      )
    fetch, self._fetch = self._fetch, None
    snapshot = fetch.result()
    if snapshot is None or snapshot[:2] == self._identity:
      return None
    self._identity = snapshot[:2]
    return snapshot

  def _ask(self) -> PackedSnapshot | None:
    client = self._client
    if client is None:
      if (reason := self._waits_for()) is not None:
        raise ConnectionError(f"no variables can be had from {reason}")
      client = reverb.Client(self._address)
    # A client that has failed is dropped: its channel would try again after
    # longer and longer delays, and have all new clients do the same.
    self._client = None
    try:
      tables = client.server_info(_INFO_TIMEOUT_S)
    except (RuntimeError, reverb.errors.ReverbError) as error:
      self._inserts = -1  # Its successor may have the same count.
      raise ConnectionError(
        f"{self._address} cannot be asked for variables; is the replay server"
        f" running? ({error})"
      ) from error
    if TABLE not in tables:
      raise ValueError(
        f"{self._address} has the tables {sorted(tables)} and no {TABLE!r}, so"
        " no variables can come from it; add variables.make_table() to the"
        " server, or name another address."
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
        f"{self._address} broke off while it sent variables ({error})"
      ) from error
    self._inserts = completed
    self._client = client
    return PackedSnapshot(
      int(data["version"]),
      float(data["published_at_s"]),
      data["header"],
      data["blob"],
    )


class ServerVariables:
  """The variables of a worker without a proxy, straight from the server.

  Has the `poll` of `shared_variables.SharedVariables`.
  """

  def __init__(
    self, address: str, period_s: float = 0.1, timeout_ms: int = 1_000
  ):
    """Does not connect yet.

    Args:
      address: 'host:port' of the Reverb server.
      period_s: the server is asked at most this often, in seconds.
      timeout_ms: how long one poll may wait for it. A server that is gone costs
        this once, and nothing more until it answers.
    """
    self._client = VariablesClient(address)
    self._period_s = period_s
    self._timeout_ms = timeout_ms
    self._next_s = time.monotonic()
    self._waiting = False

  def poll(self) -> variable_packing.Snapshot | None:
    """The newest version, if it is another one than was last returned.

    Returns:
      A snapshot, or None: no other version, none yet, asked less than a period
      ago, or the server is gone.

    Raises:
      ValueError: the server has no table of variables.
    """
    now_s = time.monotonic()
    if now_s < self._next_s:
      return None
    self._next_s = now_s + self._period_s
    try:
      packed = self._client.poll(0 if self._waiting else self._timeout_ms)
    except (TimeoutError, ConnectionError):
      self._waiting = True
      return None
    self._waiting = False
    if packed is None:
      return None
    variables = variable_packing.unpack(packed.header, packed.blob)
    return variable_packing.Snapshot(*packed[:2], variables)
