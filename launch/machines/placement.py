"""Placement: the parts of a run, and the machines that have room for them."""

import collections
import dataclasses
import typing
from collections.abc import Iterator, Sequence

import ml_collections

from slipway.launch import site

HOME = "home"  # the part of the machine that started the run
TRAINER = "trainer"


class Machine(typing.NamedTuple):
  """A machine of the cluster.

  Attributes:
    id: by which the cluster knows it.
    host: its address.
    cpus: that it has in all.
    gpus: the same.
    home: whether it is the one that started the run.
  """

  id: str
  host: str
  cpus: float
  gpus: float
  home: bool

  def __str__(self) -> str:
    gpus = f" and {self.gpus:g} GPUs" if self.gpus else ""
    return f"{self.host} with {self.cpus:g} CPUs{gpus}"


@dataclasses.dataclass(frozen=True)
class Part:
  """What of a run one machine has.

  Attributes:
    name: 'home', 'trainer', or 'workers/1'.
    nodes: role and index of each of its nodes, in the order of starting.
    cpus: that it needs.
    gpus: that it needs.
    first_worker: index of its first worker in the whole run.
  """

  name: str
  nodes: tuple[tuple[str, int], ...]
  cpus: float
  gpus: float = 0.0
  first_worker: int = 0

  def fits(self, machine: Machine, there: "Sequence[Part]" = ()) -> bool:
    """Whether a machine has room for this part beside those that are there."""
    parts = [self, *there]
    return (
      sum(part.cpus for part in parts) <= machine.cpus
      and sum(part.gpus for part in parts) <= machine.gpus
    )


class Parts:
  """The parts of a run: they follow from its config."""

  def __init__(self, config: ml_collections.ConfigDict):
    """Reads the topology.

    Args:
      config: the whole config.
    """
    self._topology = config.topology
    self._shards = config.replay.get("shards", 1)
    self._evaluators = int(not config.environment.external)

  @property
  def first(self) -> list[Part]:
    """Those that there is one of, however many machines there are."""
    topology = self._topology
    home = {
      "control": 1,
      "evaluator": self._evaluators,
      "proxy": 1,
      "worker": topology.home_workers,
    }
    home_cpus = topology.home_workers * topology.cpus_per_worker
    learning = {"trainer": 1}
    if topology.replay == "own_process":
      learning["replay"] = self._shards
    of_trainer = (topology.trainer_cpus, topology.trainer_gpus)
    if topology.trainer_machine == HOME:
      nodes = site.nodes_of(home | learning)
      return [Part(HOME, nodes, home_cpus + of_trainer[0], of_trainer[1])]
    return [
      Part(HOME, site.nodes_of(home), home_cpus),
      Part(TRAINER, site.nodes_of(learning), *of_trainer),
    ]

  def workers(self, number: int) -> Part:
    """The part of a machine with workers.

    Args:
      number: of the part, from 1; also the index of its proxy.
    """
    topology = self._topology
    first = topology.home_workers + (number - 1) * topology.workers
    nodes = site.nodes_of(
      {"proxy": 1, "worker": topology.workers},
      {"proxy": number, "worker": first},
    )
    cpus = topology.workers * topology.cpus_per_worker
    return Part(f"workers/{number}", nodes, cpus, first_worker=first)

  def expected(self, machines: int) -> dict[str, int]:
    """How many nodes of each role a run has, the control node left out.

    Args:
      machines: with workers.
    """
    count = collections.Counter(
      role
      for part in [*self.first, *map(self.workers, range(1, machines + 1))]
      for role, _ in part.nodes
    )
    del count["control"]
    order = ("replay", "trainer", "evaluator", "proxy", "worker")
    return {role: count[role] for role in order}


class Placement:
  """Which machine has which part; asked again as machines come and go.

  ```python
  placement = Placement(config)
  placement.check(machines, address)
  for part, machine in placement.fill(machines): ...  # to be started
  placement.lose('workers/2')
  ```
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Places nothing yet.

    Args:
      config: the whole config.
    """
    self._parts = Parts(config)
    self._wanted = config.topology.machines  # 0: as many as there are
    self._unplaced = list(self._parts.first)
    self._made = self._wanted  # parts of workers
    self._unplaced += map(self._parts.workers, range(1, self._made + 1))
    self._on: dict[str, tuple[Part, Machine]] = {}
    self._lost: set[str] = set()  # parts that had a machine before

  @property
  def expected(self) -> dict[str, int]:
    """How many nodes of each role the run has now."""
    return self._parts.expected(self._made)

  @property
  def unplaced(self) -> list[str]:
    """Names of the parts that have no machine."""
    return [part.name for part in self._unplaced]

  @property
  def absent(self) -> list[tuple[str, int]]:
    """Role and index of the nodes of those parts."""
    return [node for part in self._unplaced for node in part.nodes]

  def check(self, machines: Sequence[Machine], cluster: str) -> None:
    """Raises ValueError, one line, if the machines are too few for a start.

    Args:
      machines: of the cluster.
      cluster: its address, for the error.
    """
    wanted = [*self._unplaced]
    if not self._made:
      wanted.append(self._parts.workers(1))
    left = list(machines)
    for part in wanted:
      fits = [m for m in left if _may_have(part, m) and part.fits(m)]
      if not fits:
        gpus = f" and {part.gpus:g} GPUs" if part.gpus else ""
        raise ValueError(
          f"the run needs {len(wanted)} machines (config.topology), and the "
          f"cluster at {cluster} has {len(machines)} "
          f"({', '.join(map(str, machines))}): none is left with the "
          f"{part.cpus:g} CPUs{gpus} of its part {part.name!r}; add machines, "
          "ask for less, or wait for them with --wait_for_machines"
        )
      left.remove(fits[0])

  def fill(self, machines: Sequence[Machine]) -> Iterator[tuple[Part, Machine]]:
    """Places what has no machine where there is room; yields what is new.

    Each part gets a machine of its own. One that has lost its machine shares
    one if there is no other; a machine that joins gets new workers.

    Args:
      machines: of the cluster, now.
    """
    for part in tuple(self._unplaced):
      machine = self._find(part, machines, part.name in self._lost)
      if machine is not None:
        self._unplaced.remove(part)
        yield self._place(part, machine)
    while not self._wanted:
      part = self._parts.workers(self._made + 1)
      machine = self._find(part, machines, shared=False)
      if machine is None:
        return
      self._made += 1
      yield self._place(part, machine)

  def lose(self, name: str) -> None:
    """Takes a part from its machine, which has gone."""
    part, _ = self._on.pop(name)
    self._lost.add(name)
    self._unplaced.append(part)

  def _place(self, part: Part, machine: Machine) -> tuple[Part, Machine]:
    self._on[part.name] = (part, machine)
    return part, machine

  def _find(
    self, part: Part, machines: Sequence[Machine], shared: bool
  ) -> Machine | None:
    parts = collections.defaultdict(list)
    for other, machine in self._on.values():
      parts[machine.id].append(other)
    may = [m for m in machines if _may_have(part, m)]
    # Those that have least first.
    for machine in sorted(may, key=lambda machine: len(parts[machine.id])):
      there = parts[machine.id]
      if (shared or not there) and part.fits(machine, there):
        return machine
    return None


def _may_have(part: Part, machine: Machine) -> bool:
  return (part.name == HOME) == machine.home
