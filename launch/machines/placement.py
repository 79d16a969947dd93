"""Placement: assigns the node groups of a run to the machines of a cluster."""

import collections
import dataclasses
import typing
from collections.abc import Iterator, Sequence

import ml_collections

from slipway.launch import host_plan

# Name of the node group on the machine of the user's command. It also is the
# value of config.topology.trainer_machine that places the trainer there.
HOME = "home"
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

  def fits(self, machine: Machine, others: "Sequence[NodeGroup]" = ()) -> bool:
    """Returns whether a machine has enough CPUs and GPUs for this group.

    Args:
      machine: the machine.
      others: groups that are placed on the machine already.
    """
    groups = [self, *others]
    return (
      sum(group.cpus for group in groups) <= machine.cpus
      and sum(group.gpus for group in groups) <= machine.gpus
    )


class NodeGroups:
  """The node groups of a run, defined by section `topology` of its config."""

  def __init__(self, config: ml_collections.ConfigDict):
    """Reads the section `topology` of a config.

    Args:
      config: the whole config.
    """
    self._topology = config.topology
    self._shards = host_plan.count_replay_servers(config)
    self._evaluators = int(not config.environment.external)

  @property
  def fixed_groups(self) -> list[NodeGroup]:
    """The node groups that do not depend on the cluster's size.

    They are 'home', then 'trainer'. If the trainer runs on the driver host,
    'home' includes the trainer's nodes, and there is no group 'trainer'.
    """
    topology = self._topology
    home = {
      "evaluator": self._evaluators,
      "proxy": 1,
      "worker": topology.home_workers,
    }
    home_cpus = topology.home_workers * topology.cpus_per_worker
    learning = {"trainer": 1}
    if topology.replay == "own_process":
      learning["replay"] = self._shards
    cpus, gpus = topology.trainer_cpus, topology.trainer_gpus
    if topology.trainer_machine == HOME:
      nodes = host_plan.list_nodes(home | learning)
      return [NodeGroup(HOME, nodes, home_cpus + cpus, gpus)]
    return [
      NodeGroup(HOME, host_plan.list_nodes(home), home_cpus),
      NodeGroup(TRAINER, host_plan.list_nodes(learning), cpus, gpus),
    ]

  def make_workers(self, number: int) -> NodeGroup:
    """Returns the node group 'workers/N', with a proxy and its workers.

    Args:
      number: N, from 1, which is also the index of the group's proxy.
    """
    topology = self._topology
    first = topology.home_workers + (number - 1) * topology.workers
    nodes = host_plan.list_nodes(
      {"proxy": 1, "worker": topology.workers},
      {"proxy": number, "worker": first},
    )
    cpus = topology.workers * topology.cpus_per_worker
    return NodeGroup(f"workers/{number}", nodes, cpus, first_worker=first)

  def count_expected(self, machines: int) -> dict[str, int]:
    """Returns the number of nodes of each role.

    Args:
      machines: number of groups 'workers/N', in addition to the fixed groups.
    """
    count = collections.Counter(
      role
      for group in [
        *self.fixed_groups,
        *map(self.make_workers, range(1, machines + 1)),
      ]
      for role, _ in group.nodes
    )
    order = ("replay", "trainer", "evaluator", "proxy", "worker")
    return {role: count[role] for role in order}


class Placement:
  """Assigns node groups to machines, while machines join and leave the cluster.

  ```python
  placement = Placement(config)
  placement.check(machines, address)
  for group, machine in placement.fill(machines): ...  # start the group
  placement.unassign('workers/2')
  ```
  """

  def __init__(self, config: ml_collections.ConfigDict):
    """Makes a placement in which no group has a machine.

    Args:
      config: the whole config.
    """
    self._groups = NodeGroups(config)
    # Number of groups 'workers/N'; 0 means one for each further machine.
    self._machines_wanted = config.topology.machines
    self._unplaced = list(self._groups.fixed_groups)
    self._worker_groups = self._machines_wanted  # number of groups so far
    self._unplaced += map(
      self._groups.make_workers, range(1, self._worker_groups + 1)
    )
    self._assigned: dict[str, tuple[NodeGroup, Machine]] = {}
    self._lost: set[str] = set()  # names of groups that have lost a machine

  @property
  def expected(self) -> dict[str, int]:
    """Current number of nodes of each role."""
    return self._groups.count_expected(self._worker_groups)

  @property
  def absent(self) -> list[tuple[str, int]]:
    """Role and index of each node that currently has no machine."""
    return [node for group in self._unplaced for node in group.nodes]

  def check(self, machines: Sequence[Machine], cluster: str) -> None:
    """Checks that a cluster has a separate machine for each group.

    Args:
      machines: all machines of the cluster.
      cluster: address of the cluster, for the text of the error.

    Raises:
      ValueError: the cluster has too few machines, or too small ones.
    """
    wanted = [*self._unplaced]
    if not self._worker_groups:
      wanted.append(self._groups.make_workers(1))
    left = list(machines)
    for group in wanted:
      suitable = [m for m in left if _is_allowed(group, m) and group.fits(m)]
      if not suitable:
        gpus = f" and {group.gpus:g} GPUs" if group.gpus else ""
        raise ValueError(
          f"the run needs {len(wanted)} machines (config.topology), and the "
          f"cluster at {cluster} has {len(machines)} "
          f"({', '.join(map(str, machines))}): none is left with the "
          f"{group.cpus:g} CPUs{gpus} of the node group {group.name!r}; add "
          "machines, lower the need, or wait for them with --wait_for_machines"
        )
      left.remove(suitable[0])

  def fill(
    self, machines: Sequence[Machine]
  ) -> Iterator[tuple[NodeGroup, Machine]]:
    """Assigns groups without a machine to machines with enough CPUs and GPUs.

    Each group gets a separate machine. But a group that has lost its machine
    may share another group's machine if no machine is free. If the config does
    not limit the number of machines, each further machine gets a new group of
    workers.

    Args:
      machines: current machines of the cluster.

    Yields:
      Each newly assigned group with its machine.
    """
    for group in tuple(self._unplaced):
      may_share = group.name in self._lost
      machine = self._find_machine(group, machines, may_share)
      if machine is not None:
        self._unplaced.remove(group)
        yield self._assign(group, machine)
    while not self._machines_wanted:
      group = self._groups.make_workers(self._worker_groups + 1)
      machine = self._find_machine(group, machines, may_share=False)
      if machine is None:
        return
      self._worker_groups += 1
      yield self._assign(group, machine)

  def unassign(self, name: str) -> None:
    """Removes a group from its machine, which is lost.

    The next `fill` assigns the group to a machine again.

    Args:
      name: name of the group.
    """
    group, _ = self._assigned.pop(name)
    self._lost.add(name)
    self._unplaced.append(group)

  def _assign(
    self, group: NodeGroup, machine: Machine
  ) -> tuple[NodeGroup, Machine]:
    """Records that a group runs on a machine; returns both arguments."""
    self._assigned[group.name] = (group, machine)
    return group, machine

  def _find_machine(
    self, group: NodeGroup, machines: Sequence[Machine], may_share: bool
  ) -> Machine | None:
    """Returns a machine that may run a group, and has enough CPUs and GPUs.

    Args:
      group: the group to place.
      machines: current machines of the cluster.
      may_share: whether the machine may have other groups.

    Returns:
      Of such machines, the one with the fewest groups; None: there is none.
    """
    groups = collections.defaultdict(list)
    for other, machine in self._assigned.values():
      groups[machine.id].append(other)
    allowed = [m for m in machines if _is_allowed(group, m)]
    for machine in sorted(allowed, key=lambda machine: len(groups[machine.id])):
      others = groups[machine.id]
      if (may_share or not others) and group.fits(machine, others):
        return machine
    return None


def _is_allowed(group: NodeGroup, machine: Machine) -> bool:
  """Returns whether a group may be placed on a machine.

  The machine's free CPUs and GPUs are not checked. The group 'home' runs on the
  driver host only, and the driver host runs no other group.
  """
  return (group.name == HOME) == machine.is_driver_host
