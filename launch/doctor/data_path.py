"""Data path: measures each part of it on this machine, in this process."""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np
import portpicker

from slipway.agents import registry
from slipway.agents.updates import replay_updates
from slipway.configs import catalog
from slipway.environments import random_play
from slipway.launch.control import rates as rates_lib
from slipway.launch.diagnosis import finding
from slipway.launch.display import standard_streams
from slipway.replay import proxy
from slipway.replay.items import writer
from slipway.replay.tables import tables, trajectory_manager
from slipway.replay.transport import control_block, routes
from slipway.replay.variables import shared_variables, variables

_SECONDS = 0.7  # for which each part is measured
_UPDATES, _ITEMS = 20, 16  # per call
_WAIT_S, _PERIOD_S = 0.2, 0.01
_SLOW = 0.1  # part of a healthy rate


def check() -> Iterator[finding.Finding]:
  """Yields a finding per part, beside what two Xeon cores of 2.1 GHz reach."""
  config = catalog.algorithms()["dqn"].get_config("cartpole")
  config.replay.samples_per_insert = 0.0  # no part waits for another
  config.replay.min_size = _ITEMS
  probe = random_play.play(config.environment, _SECONDS / 2)
  yield _judge("environment", 1 / probe.step_s, "environment steps", 40_000)
  rates = rates_lib.Rates.from_config(config, probe.spec)
  table, limiter = rates.table, rates.limiter
  assert table is not None and limiter is not None
  with contextlib.ExitStack() as stack:
    # Of Reverb's server, which prints to standard error.
    stack.enter_context(standard_streams.discarding(2))
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    server = trajectory_manager.TrajectoryManager(
      [tables.make_table(table, limiter)],
      portpicker.pick_unused_port(),
    )
    stack.callback(server.close)
    worker_proxy = proxy.WorkerProxy(
      *(server.address, f"unix:{folder}/relay", f"{folder}/control_block")
    )
    stack.callback(worker_proxy.close)
    worker_proxy.start()
    handle = control_block.WorkerHandle(f"{folder}/control_block", 0)
    stack.callback(handle.close)
    route = routes.ProxyRoute(worker_proxy.address, handle)
    items = writer.ItemWriter(route, tables.TRANSITIONS)
    stack.callback(items.close, _WAIT_S)
    records = np.zeros((_ITEMS, *table.schema.item_shape), np.uint8)

    def write() -> int:
      if not items.wait(_WAIT_S):
        return 0
      items.write(records, np.ones(_ITEMS))
      return _ITEMS

    yield _judge("writer", _count(write), "items through proxy", 10_000)
    builder, servers = registry.make_builder(config.agent), [server.address]
    learner = builder.make_learner(config, probe.spec)
    updates = replay_updates.ReplayUpdates(learner, table, limiter, servers)
    stack.callback(updates.close)
    updates.run(_UPDATES)  # traces the graph
    rate = _count(lambda: _UPDATES * (updates.run(_UPDATES) is not None))
    yield _judge("updates", rate, "updates with batches from Reverb", 600)
    path = f"{folder}/variables"
    publisher = variables.VariablesPublisher(None, shared_path=path)
    stack.callback(publisher.close)
    reader = shared_variables.SharedVariables(path)

    def publish() -> int:
      publisher.publish(learner.get_variables())
      time.sleep(_PERIOD_S)
      return reader.poll() is not None

    yield _judge("variables", _count(publish), "versions to a worker", 17)


def _count(call: Callable[[], int]) -> float:
  """Returns what a function's results sum up to per second."""
  began_s, count = time.monotonic(), 0
  while (passed_s := time.monotonic() - began_s) < _SECONDS:
    count += call()
  return count / passed_s


def _judge(
  name: str, rate: float, unit: str, healthy: float
) -> finding.Finding:
  """Returns the finding about a part's rate per second."""
  text = f"{rate:,.0f} {unit} per second; two Xeon cores reach {healthy:,.0f}"
  advice = "look for other programs, or a power-saving governor"
  return finding.judge(name, text, rate >= _SLOW * healthy, advice)
