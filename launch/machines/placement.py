"""Placement: assigns the node groups of a run to the machines of a cluster."""

import collections
import dataclasses
import typing
from collections.abc import Iterator, Sequence

import ml_collections

from slipway.launch.launchers import host_plan
from slipway.launch.runs import machine_usage

# Name of the node group on the machine of the user's command. It also is the
# value of config.topology.trainer_machine that places the trainer there.
HOME = machine_usage.HOME
# Name of the node group of a trainer on another machine.
TRAINER = "trainer"


class Machine(typing.NamedTuple):
  """A machine of the cluster, as Ray describes it.

  Attributes:
    id: Ray's id of the machine.
    host: IP address of the machine.
    cpus: number of all CPUs that Ray may use, including used ones.
    gpus: number of all GPUs that Ray may use, including used ones.
    is_driver_host: whether the user's command runs on this machine.
  """

  id: str
  host: str
  cpus: float
  gpus: float
  is_driver_host: bool

  def __str__(self) -> str:
    """Returns a text such as '10.0.0.2 with 8 CPUs and 1 GPUs'."""
    gpus = f" and {self.gpus:g} GPUs" if self.gpus else ""
    return f"{self.host} with {self.cpus:g} CPUs{gpus}"


@dataclasses.dataclass(frozen=True)
class NodeGroup:
  """The nodes of a run that are placed together on one machine.

  Attributes:
    name: 'home', 'trainer', or 'workers/N' with N from 1.
    nodes: role and index of each node, in the order of starting.
    cpus: number of CPUs that all nodes together need.
    gpus: number of GPUs that all nodes together need.
    first_worker: index of the group's first worker among all workers of the
      run.
  """

  name: str
  nodes: tuple[tuple[str, int], ...]
  cpus: float
  gpus: float = 0.0
  first_worker: int = 0


class Placement:
  """Assigns node groups to machines, while machines join and leave the cluster.

  The group 'home' runs on the driver host, with the trainer's nodes unless
  these have a machine of their own, as the group 'trainer'. Each further
  machine runs a group 'workers/N', with a proxy and its workers.

  ```python
  placement = Placement(config)
  if not placement.find_missing(machines, address):
    for group, machine in placement.fill(machines): ...  # start the group
  placement.unassign('workers/2')
  ```
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Makes the groups of a run, of which none has a machine."""
    self._config = config
    machines = config.topology.machines
    self._is_elastic = machines == 0  # each further machine gets a group
    self._groups = _make_fixed_groups(config)
    self._groups += [_make_workers(config, n + 1) for n in range(machines)]
    self._count_workers = machines
    self._assigned: dict[str, Machine] = {}  # by name of the group
    self._lost: set[str] = set()  # names of groups that have lost a machine

  @property
  def expected(self) -> dict[str, int]:
    """Current number of nodes of each role."""
    nodes = [role for group in self._groups for role, _ in group.nodes]
    count = collections.Counter(nodes)
    order = ("replay", "trainer", "evaluator", "proxy", "worker")
    return {role: count[role] for role in order}

  @property
  def absent(self) -> list[tuple[str, int]]:
    """Role and index of each node that currently has no machine."""
    return [node for group in self._list_unplaced() for node in group.nodes]

  def find_missing(self, machines: Sequence[Machine], cluster: str) -> str:
    """Returns a sentence about machines that a cluster lacks, or ''.

    Args:
      machines: all machines of the cluster; each group needs a separate one.
      cluster: address of the cluster, for the sentence.
    """
    config = self._config
    placed = [group for group, _ in Placement(config).fill(machines)]
    wanted = _make_fixed_groups(config)
    for number in range(max(1, config.topology.machines)):
      wanted.append(_make_workers(config, number + 1))
    for group in wanted:
      if group not in placed:
        gpus = f" and {group.gpus:g} GPUs" if group.gpus else ""
        return (
          f"the run needs {len(wanted)} machines (config.topology), and the "
          f"cluster at {cluster} has {len(machines)} "
          f"({', '.join(map(str, machines))}): none is left with the "
          f"{group.cpus:g} CPUs{gpus} of the node group {group.name!r}; add "
          "machines, lower the need, or wait for them with --wait_for_machines"
        )
    return ""

  def fill(
    self, machines: Sequence[Machine]
  ) -> Iterator[tuple[NodeGroup, Machine]]:
    """Assigns groups without a machine to machines with enough CPUs and GPUs.

    Each group gets a separate machine. But a group that has lost its machine
    may share another group's machine if no machine is free. If the config does
    not limit the number of machines, each further machine gets a new group of
    workers.

    Yields:
      Each newly assigned group with its machine.
    """
    for group in self._list_unplaced():
      if (machine := self._find_machine(group, machines)) is not None:
        self._assigned[group.name] = machine
        yield group, machine
    while self._is_elastic:
      group = _make_workers(self._config, self._count_workers + 1)
      if (machine := self._find_machine(group, machines)) is None:
        return
      self._count_workers += 1
      self._groups.append(group)
      self._assigned[group.name] = machine
      yield group, machine

  def unassign(self, name: str) -> None:
    """Removes a group from its machine, which is lost."""
    del self._assigned[name]
    self._lost.add(name)

  def _list_unplaced(self) -> list[NodeGroup]:
    """Returns the groups without a machine."""
    return [x for x in self._groups if x.name not in self._assigned]

  def _find_machine(
    self, group: NodeGroup, machines: Sequence[Machine]
  ) -> Machine | None:
    """Returns the machine with the fewest groups that has room for a group."""
    groups = collections.defaultdict(list)
    for other in self._groups:
      if (machine := self._assigned.get(other.name)) is not None:
        groups[machine.id].append(other)
    for machine in sorted(
      machines, key=lambda machine: len(groups[machine.id])
    ):
      others = groups[machine.id]
      if (
        (group.name == HOME) == machine.is_driver_host
        and (not others or group.name in self._lost)
        and sum(x.cpus for x in [group, *others]) <= machine.cpus
        and sum(x.gpus for x in [group, *others]) <= machine.gpus
      ):
        return machine
    return None


def _make_fixed_groups(config: ml_collections.ConfigDict) -> list[NodeGroup]:
  """Returns the groups that do not depend on the number of machines."""
  topology = config.topology
  home = {
    "evaluator": int(not config.environment.external),
    "proxy": 1,
    "worker": topology.home_workers,
  }
  home_cpus = topology.home_workers * topology.cpus_per_worker
  learning = {"trainer": 1}
  if topology.replay == "own_process":
    learning["replay"] = host_plan.count_replay_servers(config)
  cpus, gpus = topology.trainer_cpus, topology.trainer_gpus
  if topology.trainer_machine == HOME:
    nodes = host_plan.list_nodes(home | learning)
    return [NodeGroup(HOME, nodes, home_cpus + cpus, gpus)]
  return [
    NodeGroup(HOME, host_plan.list_nodes(home), home_cpus),
    NodeGroup(TRAINER, host_plan.list_nodes(learning), cpus, gpus),
  ]


def _make_workers(config: ml_collections.ConfigDict, number: int) -> NodeGroup:
  """Returns the group 'workers/N'; N is also the index of its proxy."""
  topology = config.topology
  first = topology.home_workers + (number - 1) * topology.workers
  nodes = host_plan.list_nodes(
    {"proxy": 1, "worker": topology.workers},
    {"proxy": number, "worker": first},
  )
  cpus = topology.workers * topology.cpus_per_worker
  return NodeGroup(f"workers/{number}", nodes, cpus, first_worker=first)
