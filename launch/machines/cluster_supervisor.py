"""Cluster supervisor: starts, polls and replaces the host agents of a run."""

import collections
import contextlib
import enum
import time

from slipway.launch.machines import cluster as cluster_lib
from slipway.launch.machines import host_agent
from slipway.launch.machines import placement as placement_lib
from slipway.launch.orchestration import messages
from slipway.launch.processes import (
  failures,
  node_log,
  restart_budget,
  signals,
)
from slipway.launch.runs import event_log, outbox, run_status
from slipway.launch.runs import run as run_lib

_WAIT_S = 0.25  # longest wait in seconds for a reply of any agent
_POLL_PERIOD_S = 0.5  # seconds between two polls of an agent
_MACHINES_PERIOD_S = 1.0  # seconds between two polls of the list of machines
# Seconds without a reply after which an agent counts as lost. It is longer than
# the agent's poll timeout, so that no node ever runs twice.
_LOST_AFTER_S = 20.0
# Seconds for which a machine is not used after its agent was lost, because Ray
# may still list a dead machine as alive.
_EXCLUDED_S = 30.0
# Seconds that agents may take at the end to remove their folders.
_SHUT_DOWN_TIMEOUT_S = 3.0
# Seconds that agents may take to end their nodes once the run has failed or
# stopped.
_GRACE_S = 10.0


class _Stage(enum.Enum):
  """The stage of a host agent's start, from placement to running nodes."""

  PLACED = enum.auto()  # the agent was made; `start` was not called yet
  STARTING = enum.auto()  # the agent's `start` was called
  RUNNING = enum.auto()  # the agent's `start` has returned


class _Member:
  """A node group that is placed on a machine, and the host agent that runs it.

  Attributes:
    group: the node group that the agent runs.
    machine: the agent's machine.
    agent: handle of the agent.
    stage: stage of the agent's start.
    replied_at_s: monotonic seconds of the agent's last reply; before the first
      reply, of the call of `start`.
    poll_due_s: monotonic seconds of the next poll.
    ended: whether all nodes of the group have ended.
  """

  def __init__(
    self,
    group: placement_lib.NodeGroup,
    machine: placement_lib.Machine,
    agent: cluster_lib.RemoteActor,
  ):
    """Stores the arguments, for an agent whose `start` was not called yet."""
    self.group, self.machine, self.agent = group, machine, agent
    self.stage = _Stage.PLACED
    self.replied_at_s = time.monotonic()
    self.poll_due_s = 0.0
    self.ended = False

  @property
  def lost(self) -> bool:
    """Whether the agent has not replied for too long."""
    if self.stage is _Stage.PLACED:  # not called yet
      return False
    is_running = self.stage is _Stage.RUNNING
    timeout_s = _LOST_AFTER_S if is_running else host_agent.START_TIMEOUT_S
    return time.monotonic() - self.replied_at_s > timeout_s


class ClusterSupervisor:
  """Runs a run's node groups on a cluster's machines until the run has ended.

  It starts a host agent per node group, and polls the agents. If an agent or a
  machine is lost, the group is moved to another machine.

  Attributes:
    control_socket: path of the launcher's socket; to be set before `run`.
  """

  def __init__(
    self,
    run: run_lib.Run,
    cluster: cluster_lib.Cluster,
    secure: bool,
  ):
    """Makes a supervisor without starting agents.

    Args:
      run: the run to execute.
      cluster: connection to the cluster.
      secure: whether machines communicate over mutual TLS.
    """
    self._run, self._cluster, self._secure = run, cluster, secure
    self.control_socket = ""
    config, folder = run.config, run.folder
    self._placement = placement_lib.Placement(config)
    self._members: dict[str, _Member] = {}
    # Address of the machine by node group, including groups that have ended.
    self._hosts: dict[str, str] = {}
    self._endpoints: dict[str, str] = {}  # addresses by service name
    self._connections_refused: dict[str, int] = {}  # by node group
    self._restart_budgets = collections.defaultdict(
      lambda: restart_budget.RestartBudget(
        config.restarts.budget, config.restarts.period_s
      )
    )
    self._excluded_until_s: dict[str, float] = {}  # by machine id
    self._log = event_log.EventLog(folder.logs / "cluster")
    self._outbox = outbox.Outbox()
    self._machines_due_s = 0.0
    self._stopping = self._forced_shutdown = self._kill_requested = False
    self._failure: failures.Failure | None = None
    self._deadline_s = float("inf")

  def run(self) -> None:
    """Starts all node groups, and returns when all have ended.

    Raises:
      failures.NodeFailedError: a node or a node group has failed too often, or
        could not be started.
      KeyboardInterrupt: `kill_at_once` was called.
    """
    try:
      while self._step():
        pass
    finally:
      self._shut_down_agents()
    if self._failure is not None:
      raise failures.NodeFailedError(self._failure)

  def stop_restarting(self) -> None:
    """Starts no node group from now on, and stops the restarts of nodes.

    To be called when the run is stopping.
    """
    self._stopping = True

  def end_soon(self) -> None:
    """Makes all agents end their nodes now; agents are killed after 10 s."""
    self._stopping = self._forced_shutdown = True
    deadline_s = time.monotonic() + _GRACE_S
    self._deadline_s = min(self._deadline_s, deadline_s)

  force_shutdown = end_soon

  @property
  def has_failed(self) -> bool:
    """Whether a node or a node group has failed, so that the run fails."""
    return self._failure is not None

  def kill_at_once(self) -> None:
    """Makes `run` kill all agents and raise KeyboardInterrupt.

    Signal handlers may call this method.
    """
    self._kill_requested = True

  def placement(self) -> messages.Placement:
    """Returns the current machines and node counts, for the control."""
    running = {
      name
      for name, member in self._members.items()
      if member.stage is _Stage.RUNNING
    }
    machines = {
      name: run_status.MachineStatus(
        host, name in running, self._connections_refused.get(name, 0)
      )
      for name, host in self._hosts.items()
    }
    return messages.Placement(machines, self.expected, self._placement.absent)

  @property
  def expected(self) -> dict[str, int]:
    """Current number of nodes of each role."""
    return self._placement.expected

  def _shut_down_agents(self) -> None:
    """Calls `close` of all agents, and kills the agents within 3 s.

    Agents that do not end in time leave their temporary folders behind.
    """
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

  def _step(self) -> bool:
    """Waits up to 0.25 s for a reply of an agent, and handles what happened.

    It starts agents on new machines, handles replies, and replaces lost agents.

    Returns:
      Whether `run` has to continue: some agent still runs nodes, and the
      deadline after which agents are killed has not passed.

    Raises:
      signals.SecondInterrupt: `kill_at_once` was called.
    """
    cluster_lib.wait([m.agent for m in self._members.values()], _WAIT_S)
    if self._kill_requested:
      raise signals.SecondInterrupt
    self._start_agents()
    for member in tuple(self._members.values()):
      self._update(member)
    if time.monotonic() > self._deadline_s:
      running = [name for name, m in self._members.items() if not m.ended]
      self._log.info("killed, because they did not end: %s", ", ".join(running))
      return False
    return not all(m.ended for m in self._members.values())

  def _start_agents(self) -> None:
    """Assigns node groups to the current machines, and starts their agents.

    It does so once a second, and also replaces agents whose machine is down.
    """
    now_s = time.monotonic()
    if self._stopping or self._forced_shutdown or now_s < self._machines_due_s:
      return
    self._machines_due_s = now_s + _MACHINES_PERIOD_S
    machines = self._cluster.machines()
    alive = {machine.id for machine in machines}
    for name, member in tuple(self._members.items()):
      if member.machine.id not in alive:
        self._replace_lost(name, "its machine is down", crashed=False)
    usable = [
      m for m in machines if self._excluded_until_s.get(m.id, 0.0) < now_s
    ]
    for group, machine in self._placement.fill(usable):
      task = host_agent.AgentTask(
        group, self._run, machine.host, self._secure, self.control_socket
      )
      self._log.info("%s is placed on %s", group.name, machine)
      self._hosts[group.name] = machine.host
      self._members[group.name] = _Member(
        group, machine, self._cluster.start(machine, task)
      )

  def _update(self, member: _Member) -> None:
    """Handles an agent's reply or loss, and starts the next call.

    Args:
      member: the agent and its node group.
    """
    name = member.group.name
    try:
      self._communicate(member)
    except cluster_lib.ActorDiedError as error:
      self._replace_lost(name, str(error), crashed=True)
    except RuntimeError as error:
      self._fail(
        failures.Failure(f"the node group {name!r} failed: {error}", "")
      )
      self._replace_lost(name, str(error), crashed=False)

  def _communicate(self, member: _Member) -> None:
    """Handles an agent's reply if there is one, and starts the next call.

    Args:
      member: the agent and its node group.

    Raises:
      ActorDiedError: the agent has died.
      RuntimeError: the called method has raised an error.
    """
    if member.agent.pending:
      try:
        reply = member.agent.get_result()
      except TimeoutError:
        if member.lost:
          self._replace_lost(
            member.group.name, "it does not reply", crashed=False
          )
        return
      member.replied_at_s = time.monotonic()
      self._handle_reply(member, reply)
    if member.stage is _Stage.PLACED:
      self._start_if_ready(member)
    # Other machines reach the control by the agent on the driver host, also
    # once that has no node.
    elif member.stage is _Stage.RUNNING and (
      not member.ended or member.group.name == placement_lib.HOME
    ):
      self._poll_if_due(member)

  def _handle_reply(
    self,
    member: _Member,
    reply: dict[str, str] | host_agent.AgentReport,
  ) -> None:
    """Handles an agent's reply to `start` or `poll`.

    Args:
      member: the agent and its node group.
      reply: the result of `HostAgent.start` or of `HostAgent.poll`.
    """
    if isinstance(reply, host_agent.AgentReport):
      self._handle_report(member, reply)
      return
    member.stage = _Stage.RUNNING
    self._log.info(
      "%s has started on %s", member.group.name, member.machine.host
    )
    for service, address in reply.items():
      self._log.info("%s is at %s", service, address)
    self._endpoints.update(reply)

  def _handle_report(
    self, member: _Member, report: host_agent.AgentReport
  ) -> None:
    """Appends a report's logs to the run's folder, and handles the agent's end.

    Args:
      member: the agent and its node group.
      report: the agent's reply to a poll.
    """
    name = member.group.name
    self._connections_refused[name] = report.connections_refused
    for log, data in report.logs.items():
      path = self._run.folder.logs / _log_name(log, name)
      # The run must not fail because its logs can't be written.
      with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        self._outbox.append(path, data)
      node_log.NodeLog(path).trim()
    if not report.ended:
      return
    if not member.ended:
      self._log.info("%s has ended", name)
    member.ended = True
    if report.failure is not None:
      self._fail(report.failure)

  def _start_if_ready(self, member: _Member) -> None:
    """Calls an agent's `start`, once its nodes can reach the control.

    Args:
      member: an agent whose `start` was not called yet.
    """
    on_driver = member.group.name == placement_lib.HOME
    if not on_driver and host_agent.CONTROL not in self._endpoints:
      return
    member.stage = _Stage.STARTING
    member.replied_at_s = time.monotonic()
    member.agent.call("start", self.expected, self._endpoints)

  def _poll_if_due(self, member: _Member) -> None:
    """Starts a poll of an agent, with the current command, if a poll is due."""
    if not member.agent.pending and time.monotonic() >= member.poll_due_s:
      member.poll_due_s = time.monotonic() + _POLL_PERIOD_S
      member.agent.call(
        "poll",
        host_agent.AgentCommand(
          self._endpoints, self._stopping, self._forced_shutdown
        ),
      )

  def _replace_lost(self, name: str, why: str, crashed: bool) -> None:
    """Kills a lost agent, and makes its node group wait for another machine.

    The run fails if the driver host's agent is lost, or if agents of the group
    have crashed too often.

    Args:
      name: name of the node group.
      why: reason of the loss, for the log.
      crashed: whether the agent's process has died, while its machine may still
        be alive.
    """
    member = self._members.pop(name)
    self._log.info("%s on %s is lost: %s", name, member.machine.host, why)
    with contextlib.suppress(Exception):
      member.agent.kill()
    if member.ended or self._forced_shutdown:
      return
    if name == placement_lib.HOME:
      self._fail(
        failures.Failure(f"the node group {name!r} was lost: {why}", "")
      )
      return
    self._placement.unassign(name)
    now_s = time.monotonic()
    alive = {machine.id for machine in self._cluster.machines()}
    if not crashed or member.machine.id not in alive:
      # The loss of a machine uses no restart of the group's budget.
      self._excluded_until_s[member.machine.id] = now_s + _EXCLUDED_S
    elif self._restart_budgets[name].count_failure(now_s) is None:
      self._fail(
        failures.Failure(f"the node group {name!r} crashed: {why}", "")
      )

  def _fail(self, failure: failures.Failure) -> None:
    """Makes the run fail: all nodes shut down, and `run` raises the failure.

    Args:
      failure: the failure; after the first one, failures are only logged.
    """
    self._failure = self._failure or failure
    self._log.info("%s", failure.line)
    self.end_soon()


def _log_name(log: str, group: str) -> str:
  """Returns the name of a machine's log among all logs in the run's folder.

  Each machine has a log 'runner', to whose name the group's name is appended.

  Args:
    log: name of the log on the machine, such as 'worker/0' or 'runner'.
    group: name of the machine's node group.
  """
  return f"runner-{group.replace('/', '-')}" if log == "runner" else log
