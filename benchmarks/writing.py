"""Writing: raw Reverb writers, a server, and the proxy between them."""

import contextlib
import itertools
import threading
import time
import typing
from collections.abc import Mapping

import numpy as np
import portpicker

from benchmarks import processes

if typing.TYPE_CHECKING:
  from slipway.replay.tables import table_spec

# Confirmed at least this often, and as many again in flight: what
# `slipway.replay.items.writer` keeps.
_ROWS_A_FLUSH = 16
_FLUSH_TIMEOUT_MS = 30_000
_CAPACITY = 20_000  # items
_PRIORITY_EXPONENT = 0.6
_DISTINCT_ROWS = 64
_FRAME_BYTES = 84 * 84


class Window(typing.NamedTuple):
  """The start and the end of a measurement.

  Attributes:
    start_s: monotonic seconds of the start.
    end_s: monotonic seconds of the end.
  """

  start_s: float
  end_s: float


class Written(typing.NamedTuple):
  """Measurements of one writer within a window.

  Attributes:
    items: number of confirmed items.
    wall_s: duration in seconds.
    cpu_s: CPU seconds of the writer's process.
  """

  items: int  # confirmed
  wall_s: float
  cpu_s: float


class _Rows:
  """A schema of items that are one record each; implements `ItemSchema`."""

  transitions_per_item = 1

  def __init__(self, item_shape: tuple[int, ...]):
    """Keeps the shape of a record."""
    self.item_shape = item_shape

  def kept_frame_records(self, num_envs: int) -> int:
    """Returns 0: items do not refer to earlier records."""
    del num_envs
    return 0

  def describe(self) -> dict[str, typing.Any]:
    """Returns that an item is bytes, without fields."""
    return {"item": "bytes"}


def make_rows(items: str) -> np.ndarray:
  """Makes records for writers, uint8 [64, record_bytes].

  Args:
    items: 'small', CartPole's packed transitions, or 'frames', 84x84 random
      bytes, which can't be compressed.
  """
  random = np.random.default_rng(0)
  size = _DISTINCT_ROWS
  if items == "frames":
    return random.integers(0, 256, (size, _FRAME_BYTES), np.uint8)
  from slipway.configs import apex_dqn
  from slipway.environments import factory
  from slipway.replay.items import transitions

  spec = factory.make_spec(apex_dqn.get_config("cartpole").environment)
  shape = (size, *spec.observations.shape)
  return transitions.TransitionSchema(spec, n_step=3).record.pack(
    {
      "o_tm1": random.standard_normal(shape),
      "a_tm1": random.integers(spec.actions.num_values, size=size),
      "r_t": np.ones(size),
      "discount_t": np.full(size, 0.97),
      "version": np.ones(size),
      "o_t": random.standard_normal(shape),
    }
  )


def serve(rows: np.ndarray):
  """Starts a server with a run's tables, which are full and never block.

  Args:
    rows: records of the items, uint8 [M, record_bytes].

  Returns:
    The server, which must be kept referenced, and its address.
  """
  from slipway.replay.tables import table_spec

  spec = table_spec.TableSpec(
    schema=_Rows(rows.shape[1:]),
    capacity=_CAPACITY,
    batch_size=1,
    steps_per_item=1,
    priority_exponent=_PRIORITY_EXPONENT,
  )
  return serve_tables(spec, {"w": np.zeros(1, np.float32)}, rows)


def serve_tables(
  spec: "table_spec.TableSpec",
  weights: Mapping[str, np.ndarray],
  rows: np.ndarray,
  records_per_item: int = 1,
):
  """Starts a server with the variables, and with a full table of items.

  Args:
    spec: spec of the table.
    weights: the variables, by name.
    rows: uint8 [M, record_bytes], written until the table is full.
    records_per_item: records per item.

  Returns:
    The server, which must be kept referenced, and its address.
  """
  from slipway.replay.tables import tables, trajectory_manager
  from slipway.replay.variables import variables

  processes.quiet()
  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(spec), variables.make_table()],
    portpicker.pick_unused_port(),
  )
  publisher = variables.VariablesPublisher(manager.address)
  publisher.publish(weights)
  publisher.close()
  # A table that still grows costs its server more: fresh memory.
  with Writer(manager.address, rows, records_per_item) as writer:
    while writer.written < spec.capacity:
      writer.write(_ROWS_A_FLUSH, in_flight=_ROWS_A_FLUSH)
  return manager, manager.address


def serve_proxy(server_address: str, folder: str):
  """Starts a proxy, and waits until it has fetched the variables.

  Args:
    server_address: address of the server.
    folder: tmpfs directory for the proxy's files.

  Returns:
    The proxy, which must be kept referenced, and its address.
  """
  from slipway.replay import proxy
  from slipway.replay.variables import fetcher

  processes.quiet()
  worker_proxy = proxy.WorkerProxy(
    server_address,
    f"unix:{folder}/proxy",
    f"{folder}/control_block",
  )
  worker_proxy.start()
  fetching = fetcher.VariablesFetcher(
    f"{folder}/variables", worker_proxy.address, worker_proxy.get_unreachable
  )
  # Its imports must not be part of the measurement.
  while not fetching.version:
    time.sleep(fetching.poll())

  def fetch() -> None:
    while True:
      time.sleep(fetching.poll())

  threading.Thread(target=fetch, daemon=True).start()
  return worker_proxy, worker_proxy.address


def prepare() -> None:
  """Imports the modules that a writer needs."""
  import reverb  # noqa: F401  # pyright: ignore[reportUnusedImport]


def write(
  address: str,
  rows: np.ndarray,
  window: Window,
  records_per_item: int = 1,
  streams: int = 1,
) -> Written:
  """Writes at full speed until the end of a window.

  Args:
    address: address of the server or the proxy.
    rows: uint8 [M, record_bytes], written repeatedly.
    window: start and end of the measurement.
    records_per_item: records per item; each further item adds one record.
    streams: number of streams, which are used in turn.

  Raises:
    reverb.DeadlineExceededError: the server confirmed nothing for 30 s.
  """
  with contextlib.ExitStack() as stack:
    writers = [
      stack.enter_context(Writer(address, rows, records_per_item))
      for _ in range(streams)
    ]
    turns, marks = itertools.cycle(writers), []
    for limit_s in window:
      while time.monotonic() < limit_s:
        next(turns).write(_ROWS_A_FLUSH, in_flight=_ROWS_A_FLUSH)
      # From the end of one flush to the end of another, whole flushes only.
      written = sum(writer.written for writer in writers)
      marks.append((written, time.monotonic(), time.process_time()))
  before, after = marks
  return Written(*(b - a for a, b in zip(before, after, strict=True)))


def flush_each(
  address: str, rows: np.ndarray, warm_up: int, flushes: int
) -> np.ndarray:
  """Writes items one by one, each after the last was confirmed.

  Args:
    address: address of the server or the proxy.
    rows: uint8 [M, record_bytes], written repeatedly.
    warm_up: items before the first timed one.
    flushes: number of timed items.

  Returns:
    float64 [flushes], seconds from each append to its confirmation.

  Raises:
    reverb.DeadlineExceededError: the server confirmed nothing for 30 s.
  """
  seconds = np.empty(flushes)
  with Writer(address, rows) as writer:
    for _ in range(warm_up):
      writer.write(1, in_flight=0)
    for index in range(flushes):
      start_s = time.perf_counter()
      writer.write(1, in_flight=0)
      seconds[index] = time.perf_counter() - start_s
  return seconds


class Writer:
  """A Reverb client with one stream, without the checks of `items.writer`.

  Attributes:
    written: number of written items.
  """

  def __init__(self, address: str, rows: np.ndarray, records_per_item: int = 1):
    """Opens the stream.

    Args:
      address: address of the server or the proxy.
      rows: uint8 [M, record_bytes], written repeatedly.
      records_per_item: records per item.
    """
    import reverb

    from slipway.replay.tables import tables

    self._client = reverb.Client(address)
    self._writer = self._client.trajectory_writer(
      num_keep_alive_refs=records_per_item
    )
    self._records_per_item = records_per_item
    self._table = tables.TRANSITIONS
    self._rows = itertools.cycle(rows)
    self.written = 0
    for row in itertools.islice(self._rows, records_per_item - 1):
      self._writer.append(row)

  def __enter__(self) -> "Writer":
    return self

  def __exit__(self, error_type, *error) -> None:
    # Closing would wait without a limit for unconfirmed items.
    if error_type is None:
      self._writer.flush(0, timeout_ms=_FLUSH_TIMEOUT_MS)
      self._writer.close()

  def write(self, items: int, in_flight: int) -> None:
    """Writes an item, then waits until at most `in_flight` are unconfirmed."""
    writer = self._writer
    for row in itertools.islice(self._rows, items):
      writer.append(row)
      column: typing.Any = writer.history
      # A table of rows has no leading axis.
      item = (
        column[-self._records_per_item :]
        if self._records_per_item > 1
        else column[-1]
      )
      writer.create_item(self._table, 1.0, item)
    writer.flush(in_flight, timeout_ms=_FLUSH_TIMEOUT_MS)
    self.written += items
