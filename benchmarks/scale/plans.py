"""Plan: the number of workers and machines that each component supports.

The common unit is environment steps per second, which workers make. The
*capacity* of a component is its rate with one full core, or its measured rate
if it used more than one core.
"""

import math
import typing
from collections.abc import Sequence


class Capacities(typing.NamedTuple):
  """The capacity of one process of each component, per second.

  Attributes:
    inserts_per_s: items that a replay server inserts, without sampling.
    samples_per_s: items that a replay server sends, including priority updates.
    updates_per_s: trainer steps, with a server in another process.
    relays_per_s: items that a proxy forwards.
    fetches_per_s: versions of the variables that a server sends.
    steps_per_s: environment steps of a worker with its own core.
  """

  inserts_per_s: float
  samples_per_s: float
  updates_per_s: float
  relays_per_s: float
  fetches_per_s: float
  steps_per_s: float


class Work(typing.NamedTuple):
  """The config values that determine the load of the components.

  Attributes:
    steps_per_item: environment steps per item.
    samples_per_insert: target ratio of samples to inserts.
    batch_size: items per batch.
    publish_period: updates between two versions of the variables.
  """

  steps_per_item: float
  samples_per_insert: float
  batch_size: int
  publish_period: int


class Part(typing.NamedTuple):
  """The number of workers and machines that one component supports.

  Attributes:
    name: name of the component.
    steps_per_s: environment steps per second at the component's capacity.
    workers: number of workers that make these steps, with one core each.
    machines: number of machines of these workers; None: each machine has the
      component.
  """

  name: str
  steps_per_s: float
  workers: float
  machines: float | None


class Plan(typing.NamedTuple):
  """The limits of a run with a number of replay shards.

  Attributes:
    shards: number of replay servers.
    workers_per_machine: workers that a machine's cores and proxy support.
    parts: limits of all components.
    first: the component that saturates first.
  """

  shards: int
  workers_per_machine: int
  parts: Sequence[Part]
  first: Part


def make_plan(
  carried: Capacities, work: Work, shards: int, cores_per_machine: int
) -> Plan:
  """Computes how many workers and machines each component supports.

  Each worker has one core, and the proxy the cores that it needs to relay for
  them. Replay servers share inserts and samples evenly. The trainer has its own
  machine, equal to the measured one.

  Args:
    carried: capacities of the components.
    work: load of the config.
    shards: number of replay servers.
    cores_per_machine: cores of a machine with workers.

  Raises:
    ValueError: as `check_ratio`.
  """
  check_ratio(work.samples_per_insert)
  relayed = carried.relays_per_s * work.steps_per_item  # steps/s of one proxy
  proxy_cores = carried.steps_per_s / relayed  # that a worker needs of it
  workers = math.floor(
    min(cores_per_machine / (1.0 + proxy_cores), 1.0 / proxy_cores)
  )
  machine = max(1, workers) * carried.steps_per_s

  def part(name: str, steps_per_s: float, each_has_one: bool = False) -> Part:
    return Part(
      name,
      steps_per_s,
      steps_per_s / carried.steps_per_s,
      None if each_has_one else steps_per_s / machine,
    )

  items = shards / (
    1.0 / carried.inserts_per_s
    + work.samples_per_insert / carried.samples_per_s
  )
  learned = (
    carried.updates_per_s * work.batch_size / work.samples_per_insert
  )  # items/s
  shared = [
    part("replay", items * work.steps_per_item),
    part("trainer", learned * work.steps_per_item),
    part("variables", _machines_fetching(carried, work, machine) * machine),
  ]
  return Plan(
    shards,
    max(1, workers),
    [*shared, part("proxy", relayed, each_has_one=True)],
    min(shared, key=lambda one: one.steps_per_s),
  )


def check_ratio(samples_per_insert: float) -> None:
  """Checks that a config has a fixed ratio of samples to inserts.

  Raises:
    ValueError: there is no fixed ratio, so no plan can be made.
  """
  if not samples_per_insert > 0:
    raise ValueError(
      f"config.replay.samples_per_insert={samples_per_insert!r} is no ratio, "
      "so the workers that the trainer needs can't be computed: give a number"
    )


def _machines_fetching(
  carried: Capacities, work: Work, machine: float
) -> float:
  """Returns the number of machines that can fetch all versions.

  More machines fetch each version, and also make the trainer publish more
  versions, until it reaches its capacity.

  Args:
    carried: capacities of the components.
    work: load of the config.
    machine: environment steps per second of one machine.
  """
  updates = work.samples_per_insert / work.batch_size / work.steps_per_item
  versions_per_machine = machine * updates / work.publish_period  # a second
  most = carried.updates_per_s / work.publish_period
  machines = math.sqrt(carried.fetches_per_s / versions_per_machine)
  if machines * versions_per_machine > most:
    machines = carried.fetches_per_s / most
  return machines


class Sizes(typing.NamedTuple):
  """Bytes that cross the network.

  Attributes:
    sent: bytes that each item adds to its stream.
    sampled: bytes of a sampled item.
    variables: bytes of a version of the variables.
  """

  sent: int
  sampled: int
  variables: int


class Demand(typing.NamedTuple):
  """What many workers at full speed demand of the rest of a cluster.

  Attributes:
    workers: number of workers.
    machines: number of machines that they share evenly.
    steps_per_s: environment steps of all workers per second.
    shards: replay servers of one core each.
    trainers: trainers as fast as the measured one, for the config's ratio of
      samples to inserts.
    samples_per_insert: the ratio at which one such trainer has enough.
    proxy_cores: cores of each machine's proxy; above 1, workers wait for it.
    sent_mb_per_s: MB of items per second to all shards.
    sampled_mb_per_s: MB of samples per second to one trainer at full speed.
    variables_mb_per_s: MB of variables per second to all machines, as this
      trainer publishes them.
  """

  workers: int
  machines: int
  steps_per_s: float
  shards: int
  trainers: float
  samples_per_insert: float
  proxy_cores: float
  sent_mb_per_s: float
  sampled_mb_per_s: float
  variables_mb_per_s: float


def make_demand(
  carried: Capacities, work: Work, sizes: Sizes, workers: int, machines: int
) -> Demand:
  """Computes what a number of workers, with a core each, demands.

  The shards hold the ratio at which one trainer has enough samples, or that of
  the config if it is lower.

  Args:
    carried: capacities of the components.
    work: load of the config.
    sizes: bytes of what the components send.
    workers: number of workers.
    machines: number of their machines.
  """
  steps_per_s = workers * carried.steps_per_s
  items_per_s = steps_per_s / work.steps_per_item
  sampled_per_s = carried.updates_per_s * work.batch_size
  wanted_per_s = items_per_s * work.samples_per_insert
  ratio = min(work.samples_per_insert, sampled_per_s / items_per_s)
  versions_per_s = carried.updates_per_s / work.publish_period
  busy = 1.0 / carried.inserts_per_s + ratio / carried.samples_per_s
  return Demand(
    *(workers, machines, steps_per_s, math.ceil(items_per_s * busy)),
    *(wanted_per_s / sampled_per_s, ratio),
    items_per_s / machines / carried.relays_per_s,
    items_per_s * sizes.sent / 1e6,
    sampled_per_s * sizes.sampled / 1e6,
    versions_per_s * machines * sizes.variables / 1e6,
  )


def predict_one_machine(
  cpu_s: Capacities, updates_per_s: float, work: Work, cores: int
) -> float:
  """Predicts the environment steps per second of a run on one machine.

  All components share its cores. The trainer's thread always has work, and gets
  `share_of_core` of what it would do alone beside the bursts of all others, as
  many as its updates demand. Also, all together need no more than the cores.
  The evaluator and the launcher are left out.

  Args:
    cpu_s: CPU seconds of each component per item, sample, update, version or
      step, in the fields of its capacity.
    updates_per_s: updates per second of the trainer alone.
    work: load of the config.
    cores: cores of the machine.
  """
  ratio = work.samples_per_insert
  items = work.batch_size / ratio  # per update
  others_s = items * (
    cpu_s.inserts_per_s
    + cpu_s.relays_per_s
    + ratio * cpu_s.samples_per_s
    + work.steps_per_item * cpu_s.steps_per_s
  )
  low, high = 0.0, min(updates_per_s, cores / (others_s + cpu_s.updates_per_s))
  for _ in range(50):  # halves the interval of the solution
    rate = (low + high) / 2
    if rate < updates_per_s * share_of_core(cores, rate * others_s):
      low = rate
    else:
      high = rate
  return low * items * work.steps_per_item


def share_of_core(cores: int, demand: float) -> float:
  """Returns the part of a core that a thread gets which always has work.

  Bursts of other threads arrive at random, and the scheduler shares the cores
  evenly among all threads that have work: a queue with processor sharing, whose
  states are the numbers of other threads with work.

  Args:
    cores: number of cores, at least 1.
    demand: mean CPU seconds that the others need per second, up to `cores`.
  """
  weight, total, share = 1.0, 0.0, 0.0
  others = 0
  while weight > 1e-9 * total and others < 100_000:
    total += weight
    share += weight * min(1.0, cores / (others + 1))
    others += 1
    weight *= demand / (others * min(1.0, cores / (others + 1)))
  return share / total
