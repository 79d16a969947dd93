"""Collecting: one worker process, of Slipway or of Acme, and its server."""

import typing

import ml_collections
import portpicker

from benchmarks import filling, processes

_WAIT_S = 1.0


class Collected(typing.NamedTuple):
  """Measurements of one worker process over some environment steps.

  Attributes:
    env_steps: environment steps of the measurement.
    items_per_step: items that the server took, per environment step.
    wall_s: duration in seconds.
    worker_cpu_s: CPU seconds of the worker process.
    server_cpu_s: CPU seconds of the server process.
  """

  env_steps: int
  items_per_step: float  # that the server took, of all steps
  wall_s: float
  worker_cpu_s: float
  server_cpu_s: float

  def row(self) -> dict[str, float]:
    """Returns the measurements and rates, by column of the CSV file."""
    return {
      **self._asdict(),
      "steps_per_cpu_s": self.env_steps / self.worker_cpu_s,
      "steps_per_wall_s": self.env_steps / self.wall_s,
      "server_cpu_us_per_step": 1e6 * self.server_cpu_s / self.env_steps,
    }


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


def serve_acme(config: ml_collections.ConfigDict):
  """Starts a server with the table of Acme's DQN.

  Args:
    config: the whole config, whose capacity and exponent the table has.

  Returns:
    The server, which must be kept referenced, and its address.
  """
  import reverb
  from acme.adders import reverb as adders

  from slipway.environments import factory

  table = reverb.Table(
    name=adders.DEFAULT_PRIORITY_TABLE,
    sampler=reverb.selectors.Prioritized(config.replay.priority_exponent),
    remover=reverb.selectors.Fifo(),
    max_size=config.replay.capacity,
    rate_limiter=reverb.rate_limiters.MinSize(1),
    signature=adders.NStepTransitionAdder.signature(
      factory.make_spec(config.environment)
    ),
  )
  port = portpicker.pick_unused_port()
  return reverb.Server([table], port=port), f"localhost:{port}"


def collect_ours(
  config: ml_collections.ConfigDict,
  address: str,
  server_pid: int,
  warm_up_steps: int,
  steps: int,
) -> Collected:
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
  passed, server_passed = _since(mine, servers, server_pid)
  writer.close(_WAIT_S)
  collector.close()
  return Collected(
    collector.env_steps - before,
    _inserted(address) / collector.env_steps,
    *passed,
    server_passed.cpu_s,
  )


def collect_acme(
  config: ml_collections.ConfigDict,
  address: str,
  server_pid: int,
  warm_up_steps: int,
  steps: int,
) -> Collected:
  """Collects with the loop, actor and adder of Acme's DQN.

  Args:
    config: the whole config; an MLP without dueling heads.
    address: address of the server from `serve_acme`.
    server_pid: process id of the server.
    warm_up_steps: environment steps before the measurement.
    steps: environment steps of the measurement.
  """
  import acme
  import sonnet as snt
  import tensorflow as tf
  import trfl
  from absl import flags
  from acme.adders import reverb as adders
  from acme.agents.tf import actors
  from acme.tf import utils as tf2_utils
  from acme.utils import counting, loggers

  from benchmarks import dm_environment

  flags.FLAGS.mark_as_parsed()  # its loop asks Launchpad's flags
  environment = dm_environment.GymnasiumEnvironment(config.environment.name)
  spec = acme.make_environment_spec(environment)
  network = snt.nets.MLP(
    [*config.network.hidden_sizes, spec.actions.num_values]
  )
  tf2_utils.create_variables(network, [spec.observations])
  epsilon = tf.Variable(config.exploration.epsilon_end, trainable=False)
  policy = snt.Sequential(
    [network, lambda q: trfl.epsilon_greedy(q, epsilon=epsilon).sample()]
  )
  actor = actors.FeedForwardActor(
    policy,
    adders.NStepTransitionAdder(
      client=_acme_client(address),
      n_step=config.adder.n_step,
      discount=config.adder.discount,
    ),
  )
  counter = counting.Counter()
  loop = acme.EnvironmentLoop(
    environment, actor, counter=counter, logger=loggers.NoOpLogger()
  )
  loop.run(num_steps=warm_up_steps)
  before = counter.get_counts()["steps"]
  mine, servers = processes.cpu(), processes.cpu(server_pid)
  loop.run(num_steps=steps)
  passed, server_passed = _since(mine, servers, server_pid)
  steps = int(counter.get_counts()["steps"])
  return Collected(
    steps - int(before),
    _inserted(address) / steps,
    *passed,
    server_passed.cpu_s,
  )


def _since(
  mine: processes.Cpu, servers: processes.Cpu, server_pid: int
) -> tuple[processes.Cpu, processes.Cpu]:
  """Returns the times of this process and of the server since two results."""
  return processes.since(mine), processes.since(servers, server_pid)


def _inserted(address: str) -> int:
  """Returns the number of items inserted into the server's only table."""
  import reverb

  (table,) = reverb.Client(address).server_info(timeout=10).values()
  return table.rate_limiter_info.insert_stats.completed


def _acme_client(address: str):
  """Makes a Reverb client that the adders of Acme 0.4.0 can use.

  They pass `get_signature_timeout_ms`, an argument that the writer of Reverb
  0.11 does not have.
  """
  import reverb

  class Client(reverb.Client):
    def trajectory_writer(self, num_keep_alive_refs, **unused):
      return super().trajectory_writer(num_keep_alive_refs)

  return Client(address)
