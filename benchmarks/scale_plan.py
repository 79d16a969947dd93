"""Plan: how many workers and machines each part of a run would feed.

All is said in environment steps a second, which is what workers make. A part
*carries* what a core of its own would do, or what it did where it used more.
"""

import math
import typing
from collections.abc import Sequence


class Carried(typing.NamedTuple):
  """What one of each part carries.

  Attributes:
    inserts_per_s: items that a replay server takes, sampling none.
    samples_per_s: items that it gives, and takes back priorities of.
    updates_per_s: of the trainer, sampling from a server in another process.
    relays_per_s: items that a proxy passes on.
    fetches_per_s: versions of the variables that a server sends.
    steps_per_s: environment steps of a worker that has a core.
  """

  inserts_per_s: float
  samples_per_s: float
  updates_per_s: float
  relays_per_s: float
  fetches_per_s: float
  steps_per_s: float


class Work(typing.NamedTuple):
  """What a config makes of them.

  Attributes:
    steps_per_item: environment steps that an item brings.
    samples_per_insert: that are asked for.
    batch_size: items a batch.
    publish_period: updates between two versions of the variables.
  """

  steps_per_item: float
  samples_per_insert: float
  batch_size: int
  publish_period: int


class Part(typing.NamedTuple):
  """How far one part goes.

  Attributes:
    name: of the part.
    steps_per_s: environment steps that it carries.
    workers: that make so many, on a core each.
    machines: that do; None: each machine has its own.
  """

  name: str
  steps_per_s: float
  workers: float
  machines: float | None


class Plan(typing.NamedTuple):
  """A run with so many replay shards.

  Attributes:
    shards: replay servers.
    workers_per_machine: that its cores and its proxy carry.
    parts: all.
    first: the one that gives out first.
  """

  shards: int
  workers_per_machine: int
  parts: Sequence[Part]
  first: Part


def make_plan(
  carried: Carried, work: Work, shards: int, cores_per_machine: int
) -> Plan:
  """Computes how many workers and machines each part feeds.

  Of a machine of workers each worker has a core, and the proxy what it needs
  to relay for them. Replay servers share out inserts and samples evenly. The
  trainer has a machine of its own, like the one that was measured.

  Args:
    carried: by one of each part.
    work: of the config.
    shards: replay servers.
    cores_per_machine: of a machine of workers.

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
  """Makes sure that something ties workers and trainer together.

  Raises:
    ValueError: there is no ratio; one line.
  """
  if not samples_per_insert > 0:
    raise ValueError(
      f"config.replay.samples_per_insert={samples_per_insert!r} is no ratio, "
      "so what the trainer needs of the workers is not known: give one"
    )


def _machines_fetching(carried: Carried, work: Work, machine: float) -> float:
  """Machines of `machine` steps/s to each of which all versions get.

  More machines fetch each version, and make the trainer publish more of them,
  until it is as fast as it can be.
  """
  updates = work.samples_per_insert / work.batch_size / work.steps_per_item
  versions_per_machine = machine * updates / work.publish_period  # a second
  most = carried.updates_per_s / work.publish_period
  machines = math.sqrt(carried.fetches_per_s / versions_per_machine)
  if machines * versions_per_machine > most:
    machines = carried.fetches_per_s / most
  return machines
