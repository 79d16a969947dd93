"""Faults: writers, and a proxy and a server that are killed and restarted."""

import contextlib
import os
import pathlib
import signal
import tempfile
import time
import typing
from collections.abc import Iterator

import numpy as np
import portpicker

from benchmarks import processes

_LOOK_S = 0.05  # of a writer that waits
_PERIOD_S = 0.005  # of a writer's batches
_BATCH = 8  # items
_QUEUE = "queue"


class Wrote(typing.NamedTuple):
  """Measurements of one writer.

  Attributes:
    confirmed_at_s: monotonic seconds at which each batch was confirmed.
    lost: items that were in flight when a stream broke.
  """

  confirmed_at_s: list[float]
  lost: int


class Place:
  """A server and its proxy at fixed addresses, and the writers that use them.

  The server and the proxy can be killed and restarted at the same addresses.

  Attributes:
    pids: process ids, by 'server' and 'proxy'.
  """

  def __init__(self, folder: str, port: int, queue_size: int):
    """Keeps the arguments; starts no process.

    Args:
      folder: tmpfs directory for the proxy's files.
      port: port of the server.
      queue_size: capacity of the server's table, from which nothing is sampled.
    """
    self._folder = folder
    self._port = port
    self._queue_size = queue_size
    self._held: dict[str, contextlib.ExitStack] = {}
    self.pids: dict[str, int] = {}

  def start(self, name: str) -> float:
    """Starts 'server' or 'proxy'; returns the monotonic time when it is up."""
    held = contextlib.ExitStack()
    if name == "server":
      serving = processes.serving(_serve, self._port, self._queue_size)
    else:
      serving = processes.serving(_serve_proxy, self._port, self._folder)
    self.pids[name], _ = held.enter_context(serving)
    self._held[name] = held
    return time.monotonic()

  def kill(self, name: str) -> float:
    """Kills 'server' or 'proxy'; returns the monotonic time of the kill."""
    os.kill(self.pids[name], signal.SIGKILL)
    self._held.pop(name).close()
    return time.monotonic()

  def close(self) -> None:
    """Stops all processes."""
    for held in self._held.values():
      held.close()

  def begin_writing(
    self, writers: list[processes.Member], proxied: bool, record_bytes: int
  ) -> None:
    """Starts the writers, which write until `end_writing`.

    Args:
      writers: prepared writer processes.
      proxied: whether they write through the proxy, or else to the server.
      record_bytes: size of each item.
    """
    pathlib.Path(self._folder, "end").unlink(missing_ok=True)
    folder = self._folder if proxied else None
    for index, writer in enumerate(writers):
      args = (self._port, folder, index, record_bytes, f"{self._folder}/end")
      writer.begin(_write, *args)

  def end_writing(self, writers: list[processes.Member]) -> list[Wrote]:
    """Stops the writers; returns the measurements of each writer."""
    pathlib.Path(self._folder, "end").touch()
    return [writer.end() for writer in writers]


@contextlib.contextmanager
def at_a_place(queue_size: int) -> Iterator[Place]:
  """Yields a `Place`, whose processes are stopped at the end of the block.

  Args:
    queue_size: capacity of the server's table, from which nothing is sampled.
  """
  with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
    place = Place(folder, portpicker.pick_unused_port(), queue_size)
    try:
      yield place
    finally:
      place.close()


def _serve(port: int, queue_size: int):
  """Starts the server; returns it and its port."""
  import reverb

  from slipway.replay.variables import variables

  processes.quiet()
  queue = reverb.Table.queue(_QUEUE, queue_size)
  return reverb.Server([queue, variables.make_table()], port=port), port


def _serve_proxy(port: int, folder: str):
  """Starts the proxy; returns it and its address."""
  from slipway.replay import proxy

  worker_proxy = proxy.WorkerProxy(
    f"localhost:{port}",
    f"unix:{folder}/relay",
    f"{folder}/control_block",
  )
  worker_proxy.start()
  return worker_proxy, worker_proxy.address


def _write(
  port: int, folder: str | None, index: int, record_bytes: int, end: str
) -> Wrote:
  """Writes random items, one confirmed batch after another.

  Args:
    port: port of the server.
    folder: folder of the proxy's files; None: writes directly to the server.
    index: number of the writer.
    record_bytes: size of each item.
    end: path of the file whose creation stops the writer.
  """
  from slipway.replay.items import writer
  from slipway.replay.transport import control_block, routes

  handle = None
  route: routes.Route = routes.DirectRoute(f"localhost:{port}")
  if folder is not None:
    handle = control_block.WorkerHandle(f"{folder}/control_block", index)
    route = routes.ProxyRoute(f"unix:{folder}/relay", handle)
  items = writer.ItemWriter(route, _QUEUE)
  rows = np.random.default_rng(index).integers(
    0, 256, (_BATCH, record_bytes), np.uint8
  )
  confirmed_at_s = []
  while not os.path.exists(end):
    if not items.wait(_LOOK_S):
      continue
    items.write(rows, np.ones(_BATCH))
    before = items.lost
    if items.flush(_LOOK_S) and items.lost == before:
      confirmed_at_s.append(time.monotonic())
    time.sleep(_PERIOD_S)
  items.close(_LOOK_S)
  if handle is not None:
    handle.close()
  return Wrote(confirmed_at_s, items.lost)
