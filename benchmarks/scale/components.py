"""Components of the benchmark `scale`: the code of each measured process."""

import time
import typing
from collections.abc import Callable

import ml_collections

from benchmarks import filling, processes, writing
from benchmarks.scale import shapes

_TICK_S = 0.01  # in which the kernel counts the time of processes
_UP_WITHIN_S = 30.0
_CLOSE_S = 0.5


class Done(typing.NamedTuple):
  """The work that a process did in a measurement, and its cost.

  Attributes:
    count: number of items, updates or versions.
    wall_s: duration in seconds.
    own_cpu_s: CPU seconds of the process, all threads.
    server_cpu_s: CPU seconds of the server.
  """

  count: float
  wall_s: float
  own_cpu_s: float
  server_cpu_s: float

  @property
  def count_per_cpu_s(self) -> float:
    """The count per CPU second of the process; finite even for 0 seconds."""
    return self.count / max(self.own_cpu_s, _TICK_S)


def serve(config: ml_collections.ConfigDict):
  """Starts a server with a full table that never blocks, and with variables.

  Args:
    config: a config from `shapes.describe`.

  Returns:
    The server, which must be kept referenced, and its address.
  """
  return writing.serve_tables(
    filling.make_table_spec(config),
    shapes.make_variables(config),
    *shapes.make_records(config),
  )


def prepare() -> None:
  """Imports the modules that `sample`, `train` and `fetch` need."""
  from slipway.agents import registry  # noqa: F401  # pyright: ignore[reportUnusedImport]
  from slipway.agents.updates import (  # noqa: F401
    replay_updates,  # pyright: ignore[reportUnusedImport]
  )


def sample(
  config: ml_collections.ConfigDict,
  server: tuple[int, str],
  warm_up_s: float,
  window_s: float,
) -> Done:
  """Samples like a trainer, without learning.

  Args:
    config: the whole config.
    server: process and address of the server.
    warm_up_s: seconds before the measurement.
    window_s: seconds of the measurement.

  Returns:
    The number of items, and its cost.
  """
  import numpy as np

  from slipway.replay.tables import dataset, priority_pusher
  from slipway.replay.transport import routes

  table = filling.make_table_spec(config)
  routes.wait_for_server(server[1], _UP_WITHIN_S)
  pusher = (
    priority_pusher.PriorityPusher(server[1]) if table.prioritized else None
  )
  steps = config.learner.steps_per_call
  # A dataset that starves ends, and is iterated again.
  iterator = iter(dataset.make_dataset(server[1], table).repeat())

  def call() -> int:
    keys = np.concatenate(
      [next(iterator).info.key.numpy() for _ in range(steps)]
    )
    if pusher is not None:
      pusher.push(keys, np.ones(len(keys)))
    return steps * table.batch_size

  done = _measure(call, server[0], warm_up_s, window_s)
  if pusher is not None:
    pusher.close(_CLOSE_S)
  return done


def train(
  config: ml_collections.ConfigDict,
  server: tuple[int, str],
  warm_up_s: float,
  window_s: float,
) -> Done:
  """Trains like a trainer whose table is in another process.

  Args:
    config: the whole config.
    server: process and address of the server.
    warm_up_s: seconds before the measurement.
    window_s: seconds of the measurement.

  Returns:
    The number of updates, and its cost.
  """
  from slipway.agents import registry
  from slipway.agents.updates import replay_updates
  from slipway.environments import factory
  from slipway.replay.transport import routes

  table = filling.make_table_spec(config)
  routes.wait_for_server(server[1], _UP_WITHIN_S)
  updates = replay_updates.ReplayUpdates(
    registry.make_builder(config.agent).make_learner(
      config, factory.make_spec(config.environment)
    ),
    *(table, table.limiter, [server[1]]),
  )
  steps = config.learner.steps_per_call
  done = _measure(
    lambda: steps if updates.run(steps) is not None else 0,
    *(server[0], warm_up_s, window_s),
  )
  updates.close()
  return done


def fetch(server: tuple[int, str], warm_up_s: float, window_s: float) -> Done:
  """Fetches the variables repeatedly, like a proxy that fetches each version.

  Args:
    server: process and address of the server.
    warm_up_s: seconds before the measurement.
    window_s: seconds of the measurement.

  Returns:
    The number of versions, and its cost.
  """
  import reverb

  from slipway.replay.variables import variables

  client = reverb.Client(server[1])

  def call() -> int:
    client.server_info(timeout=10)  # by which a proxy knows of a version
    next(
      client.sample(
        variables.TABLE, emit_timesteps=False, unpack_as_table_signature=True
      )
    )
    return 1

  return _measure(call, server[0], warm_up_s, window_s)


def copy(
  config: ml_collections.ConfigDict,
  path: str,
  warm_up_s: float,
  window_s: float,
) -> Done:
  """Copies versions out of shared memory, like a worker.

  Args:
    config: the whole config.
    path: path of the shared variables, which are created.
    warm_up_s: seconds before the measurement.
    window_s: seconds of the measurement.

  Returns:
    The number of versions, and its cost, without a server's.
  """
  from slipway.replay.variables import shared_variables, variable_packing

  packed = variable_packing.pack(shapes.make_variables(config))
  writer = shared_variables.SharedVariablesWriter(path)
  reader, version = shared_variables.SharedVariables(path), 0
  marks = []
  for limit_s in (warm_up_s, warm_up_s + window_s):
    copied, wall_s, cpu_s = marks[-1] if marks else (0, 0.0, 0.0)
    while wall_s < limit_s:
      version += 1
      writer.write(version, time.time(), *packed)
      start_s, start_cpu_s = time.perf_counter(), time.process_time()
      assert reader.poll() is not None
      wall_s += time.perf_counter() - start_s
      cpu_s += time.process_time() - start_cpu_s
      copied += 1
    marks.append((copied, wall_s, cpu_s))
  return Done(*(b - a for a, b in zip(*marks, strict=True)), server_cpu_s=0.0)


def _measure(
  call: Callable[[], int], server_pid: int, warm_up_s: float, window_s: float
) -> Done:
  """Repeats a call, and measures its work and cost after a warm-up.

  Args:
    call: function that does some work and returns its count.
    server_pid: process id of the server.
    warm_up_s: seconds before the measurement.
    window_s: seconds of the measurement.
  """
  call()  # traces, and connects
  _run(call, warm_up_s)
  own, servers = processes.cpu(), processes.cpu(server_pid)
  count = _run(call, window_s)
  passed = processes.since(own)
  return Done(count, *passed, processes.since(servers, server_pid).cpu_s)


def _run(call: Callable[[], int], seconds: float) -> int:
  """Repeats a call for some seconds; returns the sum of its counts."""
  end_s, count = time.monotonic() + seconds, 0
  while time.monotonic() < end_s:
    count += call()
  return count
