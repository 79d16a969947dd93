"""Cluster supervisor: starts, polls and replaces the host agents of a run."""

import collections
import contextlib
import dataclasses
import time
from collections.abc import Collection

from slipway.launch.control import run_control, stages
from slipway.launch.machines import cluster as cluster_lib
from slipway.launch.machines import host_agent
from slipway.launch.machines import placement as placement_lib
from slipway.launch.processes import crew, failures
from slipway.launch.processes import node as node_lib
from slipway.launch.runs import machine_usage, outbox, run_status
from slipway.launch.runs import run as run_lib

_WAIT_S = 0.25  # longest wait in seconds for a reply of any agent
_POLL_PERIOD_S = 0.5  # seconds between two polls of an agent
_MACHINES_PERIOD_S = 1.0  # seconds between two polls of the list of machines
# Seconds without a reply after which an agent counts as lost. It is longer than
# the agent's poll timeout, so that no node ever runs twice.
_LOST_AFTER_S = 20.0
# Seconds that agents may take at the end to remove their folders.
_SHUT_DOWN_TIMEOUT_S = 3.0


@dataclasses.dataclass
class _Member:
  """A node group that is placed on a machine, and the host agent that runs it.

  Attributes:
    group: the node group that the agent runs.
    machine: the agent's machine.
    agent: handle of the agent.
    replied_at_s: monotonic seconds of the agent's last reply; before that, of
      the first poll; infinite before the first poll.
    poll_due_s: monotonic seconds of the next poll.
    running: whether the agent has replied, and so has started its nodes.
    alive_roles: roles of the group's nodes that have not ended.
    ended: whether all nodes of the group have ended.
  """

  group: placement_lib.NodeGroup
  machine: placement_lib.Machine
  agent: cluster_lib.RemoteActor
  alive_roles: Collection[str]
  replied_at_s: float = float("inf")
  poll_due_s: float = 0.0
  running: bool = False
  ended: bool = False

  @property
  def on_driver(self) -> bool:
    """Whether this is the agent of the driver host."""
    return self.group.name == placement_lib.HOME


class ClusterSupervisor(crew.Crew):
  """Runs a run's node groups on a cluster's machines until the run has ended.

  It starts a host agent per node group, and polls the agents. If an agent or a
  machine is lost, a group of workers is moved to another machine. If a state is
  lost with it, the run is resumed.
  """

  def __init__(
    self,
    run: run_lib.Run,
    cluster: cluster_lib.Cluster,
    secure: bool,
  ):
    """Makes a supervisor without starting agents.

    Args:
      secure: whether machines communicate over mutual TLS.
    """
    super().__init__(run.folder.logs / "cluster", {})
    self._run, self._cluster, self._secure = run, cluster, secure
    self._control_socket = ""
    self._reset()
    restarts = run.config.restarts
    self._restart_budgets = collections.defaultdict(
      lambda: failures.RestartBudget(restarts.budget, restarts.period_s)
    )

  def _reset(self) -> None:
    """Forgets the agents, so that all node groups wait for a machine."""
    self._placement = placement_lib.Placement(self._run.config)
    self._members: dict[str, _Member] = {}
    # State of the machine by node group, including groups that have ended.
    self._machines: dict[str, run_status.MachineStatus] = {}
    self._usages: dict[str, machine_usage.MachineUsage] = {}
    self._endpoints: dict[str, str] = {}  # addresses by service name
    self._machines_due_s = 0.0
    self._stage = 0  # of the stop

  def begin(self, run: run_lib.Run, control_socket: str) -> "ClusterSupervisor":
    """Sets run and launcher's socket for the next `run`; returns itself."""
    self._run, self._control_socket = run, control_socket
    return self

  def follow(self, control: run_control.RunControl) -> None:
    """Tells the control the current machines and node counts."""
    control.place(dict(self._machines), self.expected, self._placement.absent)

  def measure(self) -> dict[str, machine_usage.MachineUsage]:
    """Returns the load of each machine by the newest report of its agent."""
    return dict(self._usages)

  @property
  def expected(self) -> dict[str, int]:
    """Current number of nodes of each role."""
    return self._placement.expected

  def _kill_all(self) -> None:
    """Calls `close` of all agents, and kills the agents within 3 s."""
    agents = [member.agent for member in self._members.values()]
    for agent in agents:
      agent.shut_down()
    end_s = time.monotonic() + _SHUT_DOWN_TIMEOUT_S
    while any(agent.pending for agent in agents) and time.monotonic() < end_s:
      cluster_lib.wait(agents, _WAIT_S)
      for agent in (agent for agent in agents if agent.pending):
        with contextlib.suppress(Exception):  # it is killed in any case
          agent.get_result()
    for agent in agents:
      agent.kill()
    self._reset()

  def _step(self) -> bool:
    """Waits up to 0.25 s for a reply of an agent, and handles what happened."""
    cluster_lib.wait([m.agent for m in self._members.values()], _WAIT_S)
    self._start_agents()
    for member in tuple(self._members.values()):
      self._update(member)
    live = [m for m in self._members.values() if not m.ended]
    if self._stopping:
      live = [m for m in live if m.running]  # the others have nothing to save
      # A stage ends with the nodes of all machines. Each agent limits the time.
      roles = [role for m in live for role in m.alive_roles]
      self._stage = max(self._stage, stages.find_stage(roles))
    return bool(live)

  def _start_agents(self) -> None:
    """Assigns node groups to the current machines, and starts their agents."""
    now_s = time.monotonic()
    if self._stopping or now_s < self._machines_due_s:
      return
    self._machines_due_s = now_s + _MACHINES_PERIOD_S
    machines = self._cluster.machines()
    alive = {machine.id for machine in machines}
    for member in tuple(self._members.values()):
      if member.machine.id not in alive:
        self._replace_lost(member, "its machine is down")
    for group, machine in self._placement.fill(machines):
      self._log.info("%s is placed on %s", group.name, machine)
      self._machines[group.name] = run_status.MachineStatus(machine.host, False)
      agent = self._cluster.start_actor(
        host_agent.HostAgent,
        *(group, self._run, machine.host, self._secure, self._control_socket),
        machine=machine,
        num_cpus=group.cpus,
        num_gpus=group.gpus,
        max_concurrency=2,  # so that `close` can run during a poll
      )
      roles = {role for role, _ in group.nodes}
      self._members[group.name] = _Member(group, machine, agent, roles)

  def _update(self, member: _Member) -> None:
    """Handles an agent's reply or loss, and polls it if a poll is due."""
    now_s = time.monotonic()
    try:
      if member.agent.pending:
        self._handle_report(member, member.agent.get_result())
        member.replied_at_s = now_s
      # Nodes start once they can reach the control. They do that by the agent
      # on the driver host, also once it has no node.
      if (
        now_s >= member.poll_due_s
        and (member.on_driver or not member.ended)
        and (member.on_driver or host_agent.CONTROL in self._endpoints)
      ):
        member.poll_due_s = now_s + _POLL_PERIOD_S
        member.replied_at_s = min(now_s, member.replied_at_s)
        stage = self._stage if self._stopping else None
        member.agent.call(
          "poll", self.expected, self._endpoints, stage, self._is_quick
        )
    except TimeoutError:
      limit_s = _LOST_AFTER_S if member.running else host_agent.START_TIMEOUT_S
      if now_s - member.replied_at_s > limit_s:
        self._replace_lost(member, "it does not reply")
    except cluster_lib.ActorDiedError as error:
      self._replace_lost(member, str(error), crashed=True)
    except failures.StateLostError:
      raise
    except RuntimeError as error:
      line = f"the node group {member.group.name!r} failed: {error}"
      self._fail(failures.Failure(line))
      self._replace_lost(member, str(error))

  def _handle_report(
    self, member: _Member, report: host_agent.AgentReport
  ) -> None:
    """Handles an agent's start, new logs and end."""
    name, host = member.group.name, member.machine.host
    if not member.running:
      member.running = True
      self._log.info("%s has started on %s", name, host)
      for service, address in report.services.items():
        self._log.info("%s is at %s", service, address)
      self._endpoints.update(report.services)
    refused = report.connections_refused
    self._usages[name] = report.usage
    self._machines[name] = run_status.MachineStatus(host, True, refused)
    for log, data in report.logs.items():
      # Each machine has a log 'runner'.
      suffix = f"-{name.replace('/', '-')}" if log == "runner" else ""
      path = self._run.folder.logs / f"{log}{suffix}"
      # The run must not fail because its logs can't be written.
      with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        outbox.append(path, data)
      node_lib.trim_log(path)
    member.alive_roles = report.alive_roles
    self.first_failures = {**report.first_failures, **self.first_failures}
    if report.ended and not member.ended:
      self._log.info("%s has ended", name)
      member.ended = True
      if report.failure is not None and report.state_lost:
        self._lose(report.failure)
      elif report.failure is not None:
        self._fail(report.failure)

  def _replace_lost(
    self, member: _Member, why: str, crashed: bool = False
  ) -> None:
    """Kills a lost agent, and makes its node group wait for another machine."""
    # If the group has a state, or is that of the driver host, by which the
    # others reach the control, the run is resumed. It fails if agents of a
    # group have crashed too often.
    name, machine = member.group.name, member.machine
    del self._members[name]
    self._usages.pop(name, None)
    self._machines[name] = run_status.MachineStatus(machine.host, False)
    self._log.info("%s on %s is lost: %s", name, machine.host, why)
    with contextlib.suppress(Exception):
      member.agent.kill()
    if member.ended:
      return
    self._placement.unassign(name)
    # The loss of a machine uses no restart of the group's budget.
    if crashed and any(m.id == machine.id for m in self._cluster.machines()):
      crash = failures.Failure(f"the node group {name!r} crashed: {why}")
      if self._restart_budgets[name].record(crash, time.monotonic()) is None:
        self._fail(crash)
    if name in (placement_lib.HOME, placement_lib.TRAINER):
      self._lose(failures.Failure(f"the node group {name!r} was lost: {why}"))
