"""Servers, proxies and writers in processes, killed at random under a seed.

At the end the counts must agree: each item that a writer counts as confirmed
came out of the queue exactly once, and each missing item was not confirmed.
"""

import contextlib
import itertools
import mmap
import multiprocessing
import os
import random
import time

import numpy as np
import portpicker
import pytest
import reverb
import tensorflow as tf

from slipway.replay import proxy as proxy_lib
from slipway.replay.items import writer as writer_lib
from slipway.replay.transport import control_block, routes
from slipway.replay.variables import variables

pytestmark = pytest.mark.timeout(300)

# The fork server imports TensorFlow once, so that processes start quickly.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["reverb", __name__])
_DEADLINE_S = 120
_TABLE = "queue"
_BATCH = 8  # items
_PERIOD_S = 0.01  # minimum seconds between two batches of a writer
_WRITERS = 3


def _serve(port: int, queue_size: int, ready) -> None:
  """Serves a queue, which returns an item twice if it was inserted twice."""
  signature = tf.TensorSpec([16], tf.uint8)
  queue = reverb.Table.queue(_TABLE, queue_size, signature=signature)
  server = reverb.Server([queue, variables.make_table()], port=port)
  ready.set()
  server.wait()


def _serve_proxy(port: int, folder: str, ready) -> None:
  proxy = proxy_lib.WorkerProxy(
    f"localhost:{port}",
    f"unix:{folder}/relay",
    f"{folder}/control_block",
  )
  proxy.start()
  ready.set()
  while True:
    time.sleep(0.1)
    proxy.check()


def _write(port: int, folder: str, index: int, source: int, ready) -> None:
  """Writes numbered items until the file `end` exists, and keeps a ledger.

  The ledger is a file of int64: the number of items passed to the writer; the
  number below which all items are confirmed or lost; 1 if the writer ended in
  order; an unused number; then the first number and the end of each lost range.
  """
  if os.path.exists(f"{folder}/relay"):
    handle = control_block.WorkerHandle(f"{folder}/control_block", index)
    route = routes.ProxyRoute(f"unix:{folder}/relay", handle)
  else:
    route = routes.DirectRoute(f"localhost:{port}")
  writer = writer_lib.ItemWriter(route, _TABLE)
  with open(f"{folder}/ledger-{source}", "w+b") as file:
    file.truncate(4096)
    ledger = memoryview(mmap.mmap(file.fileno(), 4096)).cast("q")
  ranges = iter(range(4, 512, 2))

  def update_ledger(lost_before: int) -> None:
    if writer.lost > lost_before:
      place = next(ranges)
      ledger[place] = writer.written - (writer.lost - lost_before)
      ledger[place + 1] = writer.written
    ledger[1] = writer.confirmed + writer.lost

  ready.set()
  while not os.path.exists(f"{folder}/end"):
    lost = writer.lost
    may_write = writer.wait(timeout_s=0.1)
    update_ledger(lost)
    if not may_write:
      continue
    records = np.empty((_BATCH, 2), np.int64)
    records[:, 0], records[:, 1] = source, np.arange(_BATCH) + writer.written
    ledger[0] = writer.written + _BATCH
    writer.write(records.view(np.uint8), np.ones(_BATCH))
    time.sleep(_PERIOD_S)
  lost = writer.lost
  writer.close(timeout_s=_DEADLINE_S)
  update_ledger(lost)
  assert writer.written == writer.confirmed + writer.lost
  ledger[2] = 1


class Rig:
  """Starts and kills the processes, and collects the items of the queue.

  Attributes:
    received: (source, number) of all items that came out of the queue; each
      start of a writer has a new source.
  """

  def __init__(self, folder: str, proxied: bool, queue_size: int):
    self._folder, self._queue_size = folder, queue_size
    self._port = portpicker.pick_unused_port()
    self._processes: dict[str, multiprocessing.Process] = {}
    self._source_counter = itertools.count()
    self._sources: dict[str, int] = {}  # newest source per writer
    self._client: reverb.Client | None = None
    self.received: list[tuple[int, int]] = []
    self.start("server")
    if proxied:
      self.start("proxy")
    for index in range(_WRITERS):
      self.start(f"writer {index}")

  def start(self, name: str) -> None:
    """Starts a process, and waits until it is ready."""
    role, _, index = name.partition(" ")
    ready = _CONTEXT.Event()
    if role == "server":
      target, args = _serve, (self._port, self._queue_size)
    elif role == "proxy":
      target, args = _serve_proxy, (self._port, self._folder)
    else:
      self._sources[name] = next(self._source_counter)
      target = _write
      args = (self._port, self._folder, int(index), self._sources[name])
    process = _CONTEXT.Process(target=target, args=(*args, ready), daemon=True)
    process.start()
    end_s = time.monotonic() + _DEADLINE_S
    while not ready.wait(0.1):
      assert process.is_alive() and time.monotonic() < end_s, f"no {name}"
    self._processes[name] = process
    if role == "server":
      self._client = reverb.Client(f"localhost:{self._port}")

  def kill(self, name: str) -> None:
    """Kills a process with SIGKILL, and waits for its end."""
    self._processes[name].kill()
    self._processes[name].join()
    if name == "server":
      self._client = None

  def drain(self) -> None:
    """Moves all items from the queue to `received`."""
    assert self._client is not None
    size = self._client.server_info(10)[_TABLE].current_size
    if size:
      samples = self._client.sample(_TABLE, size, emit_timesteps=False)
      for sample in samples:
        values = np.array(sample.data).reshape(-1).view(np.int64)
        self.received.append((int(values[0]), int(values[1])))

  def ledger(self, source: int) -> np.ndarray:
    """Returns the ledger of a source, as `_write` describes it."""
    return np.fromfile(f"{self._folder}/ledger-{source}", np.int64)

  def progress(self) -> list[int]:
    """Returns, per writer, the number below which all items are settled.

    An item is settled when its writer counts it as confirmed or lost.
    """
    return [
      int(self.ledger(self._sources[w])[1]) for w in sorted(self._sources)
    ]

  def wait_for_progress(self) -> None:
    """Waits until each writer has settled more items than can be in flight.

    Then each writer has written items on its current stream.
    """
    before = self.progress()
    end_s = time.monotonic() + _DEADLINE_S
    minimum = 2 * writer_lib.MAX_IN_FLIGHT
    while any(
      now - then < minimum
      for now, then in zip(self.progress(), before, strict=True)
    ):
      assert time.monotonic() < end_s, (before, self.progress())
      self.drain()
      time.sleep(0.01)

  def finish(self) -> None:
    """Makes the writers end, and drains the queue until they have ended."""
    open(f"{self._folder}/end", "x").close()
    end_s = time.monotonic() + _DEADLINE_S
    while any(self._processes[w].is_alive() for w in self._sources):
      assert time.monotonic() < end_s
      self.drain()
      time.sleep(0.01)
    self.drain()

  def close(self) -> None:
    for process in self._processes.values():
      process.kill()

  def check_counts(self, since: list[int] | None = None) -> int:
    """Asserts that the counts agree; returns the number of missing items.

    Args:
      since: first number to check, by source; None checks all.
    """
    assert len(self.received) == len(set(self.received)), (
      "an item was received twice"
    )
    received = {source: set() for source in range(next(self._source_counter))}
    for source, number in self.received:
      received[source].add(number)
    missing = 0
    for source, numbers in received.items():
      first = since[source] if since else 0
      written, settled, _, _, *ranges = self.ledger(source).tolist()
      lost = set()
      for start, end in zip(ranges[::2], ranges[1::2], strict=True):
        lost |= set(range(start, end))
      confirmed = set(range(first, settled)) - lost
      assert confirmed <= numbers, (source, sorted(confirmed - numbers)[:9])
      assert not numbers or max(numbers) < written
      missing += len(set(range(first, written)) - numbers)
    return missing


@contextlib.contextmanager
def _rig(proxied: bool, queue_size: int):
  folder = f"/dev/shm/slipway-test-{os.getpid()}"
  os.mkdir(folder)
  rig = None
  try:
    rig = Rig(folder, proxied, queue_size)
    yield rig
  finally:
    if rig is not None:
      rig.close()
    for name in os.listdir(folder):
      os.unlink(f"{folder}/{name}")
    os.rmdir(folder)


# The small queue is full most of the time, so its limiter blocks the writers.
@pytest.mark.parametrize(
  "queue_size", [pytest.param(100_000, marks=pytest.mark.chaos), 40]
)
def test_killed_proxies_and_workers(queue_size):
  rng = random.Random(queue_size)
  with _rig(True, queue_size) as rig:
    rig.wait_for_progress()
    for victim in rng.sample(["proxy"] * 4 + ["writer 0", "writer 2"], 6):
      time.sleep(rng.uniform(0.0, 0.3))
      rig.kill(victim)
      time.sleep(rng.choice([0.0, 0.5]))
      rig.start(victim)
      rig.wait_for_progress()
    rig.finish()
    for writer in range(_WRITERS):
      assert rig.ledger(rig._sources[f"writer {writer}"])[2] == 1
    # Each kill of the proxy may lose the items in flight of three streams, and
    # each kill of a writer those of one.
    most = writer_lib.MAX_IN_FLIGHT + 2 * _BATCH
    assert rig.check_counts() <= most * (4 * _WRITERS + 2)
    assert len(rig.received) > 1_000


@pytest.mark.chaos
@pytest.mark.parametrize("proxied", [True, False])
def test_a_killed_server(proxied):
  rng = random.Random(proxied)
  with _rig(proxied, 100_000) as rig:
    rig.wait_for_progress()
    time.sleep(rng.uniform(0.0, 0.3))
    rig.kill("server")
    rig.received.clear()  # the confirmed items were lost with the server
    rig.start("server")
    # Items that are written from here on go to the new server.
    since = [int(rig.ledger(source)[0]) for source in range(_WRITERS)]
    rig.wait_for_progress()
    rig.finish()
    rig.check_counts(since)
    written = sum(int(rig.ledger(s)[0]) for s in range(_WRITERS))
    assert len(rig.received) >= written - sum(since) > 0
