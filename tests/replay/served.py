"""Tables in a real server, its items, and fetchers of its variables."""

import numpy as np
import portpicker
import reverb

from slipway.replay.items import packing
from slipway.replay.items import writer as writer_lib
from slipway.replay.tables import tables, trajectory_manager
from slipway.replay.transport import routes
from slipway.replay.variables import fetcher

# Items that hold one number.
PACKING = packing.Packing({"x": (np.dtype(np.int64), ())})


def serve(spec, limiter=None, port=None, folders=(), others=()):
  """Serves the table of a spec.

  Args:
    spec: spec of the table.
    limiter: limiter in place of the spec's own.
    port: port of the server; None: an unused one.
    folders: folder for saving, and that of the snapshot to restore.
    others: further tables.
  """
  return trajectory_manager.TrajectoryManager(
    [tables.make_table(spec, limiter), *others],
    port or portpicker.pick_unused_port(),
    *folders,
  )


def numbers(start, count):
  """Returns records of the numbers from `start`."""
  return PACKING.pack({"x": np.arange(start, start + count)})


def number_of(item):
  """Returns the number of a sampled item."""
  return int(PACKING.unpack(np.array(item.data))["x"][0])


def write(manager, records, priorities=None):
  """Writes records, with priorities of 1 by default, until all have arrived."""
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(manager.address), tables.TRANSITIONS
  )
  assert writer.wait(timeout_s=20)
  if priorities is None:
    priorities = np.ones(len(records))
  writer.write(records, np.asarray(priorities))
  assert writer.close(timeout_s=20)


def sample(manager, count):
  """Samples exactly `count` items."""
  client = reverb.Client(manager.address)
  return list(client.sample(tables.TRANSITIONS, count, emit_timesteps=False))


def make_fetcher(worker_proxy, folder):
  """Makes a fetcher through a proxy, for the file `variables` of a folder."""
  return fetcher.VariablesFetcher(
    f"{folder}/variables",
    worker_proxy.address,
    worker_proxy.get_unreachable,
    poll_period_s=0.01,
  )
