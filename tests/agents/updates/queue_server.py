"""Functions of test processes: one serves a queue, one reads its batches."""

import itertools
import time

import numpy as np

from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import queue_reader, tables, trajectory_manager
from slipway.replay.transport import routes
from tests.agents.updates import given

SPEC = given.make_spec()


def write(address: str, first: int, count: int) -> None:
  """Writes `count` items, numbered from `first`."""
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(address), tables.TRANSITIONS
  )
  assert writer.wait(timeout_s=30)
  writer.write(given.make_sequences(first, count), np.ones(count))
  assert writer.close(timeout_s=30)


def number(item: np.ndarray) -> int:
  """Returns the number of an item, from its bytes."""
  return int(given.SCHEMA.record.unpack(item[None])["reward"][0, 0])


def serve(port: int, withheld: int) -> None:
  """Serves a queue whose last `withheld` items cannot be sampled."""
  limiter = SPEC.limiter._replace(min_diff=float(withheld))
  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(SPEC, limiter)], port
  )
  print("ready", flush=True)
  time.sleep(600)
  manager.close()


def take_batches(port: int) -> None:
  """Takes batches from a queue, and prints the item numbers of each."""
  address = f"localhost:{port}"
  routes.wait_for_server(address, timeout_s=30)
  reader = queue_reader.QueueReader(address, SPEC.batch_size)
  print("ready", flush=True)
  for _ in itertools.count():
    if (batch := reader.take()) is not None:
      print(*map(number, batch.data), flush=True)
