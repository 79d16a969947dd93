"""Collecting: one worker process of Slipway, and its server."""

import ml_collections
import portpicker

from benchmarks import collected, filling, processes

_WAIT_S = 1.0


def serve_ours(config: ml_collections.ConfigDict):
  """Starts a server with the table of a Slipway run.

  Args:
    config: the whole config of the run.

  Returns:
    The server, which must be kept referenced, and its address.
  """
  from slipway.replay.tables import tables, trajectory_manager

  manager = trajectory_manager.TrajectoryManager(
    [tables.make_table(filling.make_table_spec(config))],
    portpicker.pick_unused_port(),
  )
  return manager, manager.address


def collect_ours(
  config: ml_collections.ConfigDict,
  address: str,
  server_pid: int,
  warm_up_steps: int,
  steps: int,
) -> collected.Collected:
  """Collects and writes like a Slipway worker, with constant variables.

  Args:
    config: the whole config.
    address: address of the server from `serve_ours`.
    server_pid: process id of the server.
    warm_up_steps: environment steps before the measurement.
    steps: environment steps of the measurement.
  """
  from slipway.agents import registry
  from slipway.environments import factory
  from slipway.launch.nodes import collector as collector_lib
  from slipway.replay.items import writer as writer_lib
  from slipway.replay.tables import tables
  from slipway.replay.transport import routes

  spec = factory.make_spec(config.environment)
  builder = registry.make_builder(config.agent)
  collector = collector_lib.Collector(config, spec, builder, worker=0)
  collector.load(1, builder.make_learner(config, spec).get_variables())
  writer = writer_lib.ItemWriter(
    routes.DirectRoute(address),
    tables.TRANSITIONS,
    filling.make_table_spec(config).schema.kept_frame_records(
      config.topology.environments_per_worker
    ),
  )

  def run(until: int) -> None:
    while collector.env_steps < until:
      items = collector.step()
      if items is None:
        continue
      while not writer.wait(_WAIT_S):
        pass
      writer.write(*items)

  run(warm_up_steps)
  before = collector.env_steps
  mine, servers = processes.cpu(), processes.cpu(server_pid)
  run(before + steps)
  passed = processes.since(mine)
  server_passed = processes.since(servers, server_pid)
  writer.close(_WAIT_S)
  collector.close()
  return collected.Collected(
    collector.env_steps - before,
    collected.count_inserted(address) / collector.env_steps,
    *passed,
    server_passed.cpu_s,
  )
