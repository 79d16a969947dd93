"""Fleet: the agents of a run, watched and replaced from where it started."""

import collections
import contextlib
import enum
import time
import typing
from collections.abc import Callable

from slipway.launch.machines import agent as agent_lib
from slipway.launch.machines import cluster as cluster_lib
from slipway.launch.machines import placement as placement_lib
from slipway.launch.orchestration import messages
from slipway.launch.processes import failures, node_log
from slipway.launch.processes import restarts as restarts_lib
from slipway.launch.runs import event_log, outbox, run_status
from slipway.launch.runs import run as run_lib

_LOOK_S = 0.25
_ASK_PERIOD_S = 0.5
_MACHINES_PERIOD_S = 1.0
# Without an answer for so long, an agent is lost, whatever Ray knows: longer
# than it bears not to be asked, so that no node is ever there twice.
_LOST_AFTER_S = 20.0
# A runtime environment may have to be made, and the first import is a cold one.
_STARTS_WITHIN_S = 120.0
# A machine that was lost may seem to be there until Ray knows better.
_SHUNNED_S = 30.0
# Seconds for agents to remove their folders.
_DISMISSED_WITHIN_S = 3.0
# Seconds for the others to end once one has failed, or the control node ended.
_GRACE_S = 10.0


class _Stage(enum.Enum):
  READY = enum.auto()  # waits for the control node
  STARTED = enum.auto()  # has been told to start
  RUNNING = enum.auto()


class _Member:
  """An agent, and what is known of it."""

  def __init__(
    self,
    part: placement_lib.Part,
    machine: placement_lib.Machine,
    agent: cluster_lib.RemoteAgent,
  ):
    self.part, self.machine, self.agent = part, machine, agent
    self.stage = _Stage.READY
    self.heard_at_s = time.monotonic()
    self.ask_at_s = 0.0
    self.ended = False

  @property
  def lost(self) -> bool:
    """Whether it has not answered for too long."""
    running = self.stage is _Stage.RUNNING
    bears_s = _LOST_AFTER_S if running else _STARTS_WITHIN_S
    waits = self.stage is not _Stage.READY
    return waits and time.monotonic() - self.heard_at_s > bears_s


class Fleet:
  """Places a run's parts on machines, and keeps them there until it ends."""

  def __init__(
    self,
    run: run_lib.Run,
    cluster: cluster_lib.Cluster,
    secure: bool,
  ):
    """Starts nothing.

    Args:
      run: what is to run.
      cluster: whose machines are used.
      secure: whether machines talk mutual TLS.
    """
    self._run, self._cluster, self._secure = run, cluster, secure
    config, folder = run.config, run.folder
    self._placement = placement_lib.Placement(config)
    self._members: dict[str, _Member] = {}
    self._hosts: dict[str, str] = {}  # of all parts that ever were
    self._endpoints: dict[str, str] = {}
    self._strangers: dict[str, int] = {}
    self._restarts = collections.defaultdict(
      lambda: restarts_lib.Restarts(
        config.restarts.budget, config.restarts.period_s
      )
    )
    self._shunned: dict[str, float] = {}  # until when, by the machine's id
    self._log = event_log.EventLog(folder.logs / "fleet")
    self._outbox = outbox.Outbox()
    self._machines_due_s = 0.0
    self._stopping = self._hurry = self._killed = False
    self._failure: failures.Failure | None = None
    self._deadline_s = float("inf")

  def run(self, on_control: Callable[[str], None]) -> None:
    """Starts all parts, and returns when all have ended.

    Args:
      on_control: called with the control node's address on this machine, once
        it is up.

    Raises:
      failures.NodeFailedError: a node failed for good, or a machine's part
        could not be started.
      KeyboardInterrupt: `kill_at_once` was called.
    """
    self._on_control = on_control
    try:
      while self._look():
        pass
    finally:
      self._dismiss()
    if self._failure is not None:
      raise failures.NodeFailedError(self._failure)

  def stop_restarting(self) -> None:
    """Says that the run ends: what ends is not started again."""
    self._stopping = True

  def kill_at_once(self) -> None:
    """Ends all, and `run`: to be called by a signal's handler."""
    self._killed = True

  def placement(self) -> messages.Placement:
    """Returns the machines that the run has now, for the control node."""
    running = {
      name
      for name, member in self._members.items()
      if member.stage is _Stage.RUNNING
    }
    machines = {
      name: run_status.MachineStatus(
        host, name in running, self._strangers.get(name, 0)
      )
      for name, host in self._hosts.items()
    }
    return messages.Placement(machines, self.expected, self._placement.absent)

  @property
  def expected(self) -> dict[str, int]:
    """How many nodes of each role the run has now."""
    return self._placement.expected

  def _dismiss(self) -> None:
    """Ends all agents; those that answer remove what they have made."""
    agents = [member.agent for member in self._members.values()]
    for agent in agents:
      agent.dismiss()
    end_s = time.monotonic() + _DISMISSED_WITHIN_S
    while any(agent.busy for agent in agents) and time.monotonic() < end_s:
      cluster_lib.wait(agents, _LOOK_S)
      for agent in (agent for agent in agents if agent.busy):
        with contextlib.suppress(Exception):  # it is ended in any case
          agent.answer()
    for agent in agents:
      agent.kill()

  def _look(self) -> bool:
    """Waits for something to happen, and acts on it; False: all is over."""
    cluster_lib.wait([m.agent for m in self._members.values()], _LOOK_S)
    if self._killed:
      raise KeyboardInterrupt
    self._place()
    for member in tuple(self._members.values()):
      self._hear(member)
    if time.monotonic() > self._deadline_s:
      late = [name for name, m in self._members.items() if not m.ended]
      self._log.info("killed, since they did not end: %s", ", ".join(late))
      return False
    return not all(m.ended for m in self._members.values())

  def _place(self) -> None:
    """Starts what has a machine now."""
    now_s = time.monotonic()
    if self._stopping or self._hurry or now_s < self._machines_due_s:
      return
    self._machines_due_s = now_s + _MACHINES_PERIOD_S
    machines = self._cluster.machines()
    alive = {machine.id for machine in machines}
    for name, member in tuple(self._members.items()):
      if member.machine.id not in alive:
        self._lose(name, "its machine is gone", crashed=False)
    usable = [m for m in machines if self._shunned.get(m.id, 0.0) < now_s]
    for part, machine in self._placement.fill(usable):
      task = agent_lib.Task(part, self._run, machine.host, self._secure)
      self._log.info("%s is placed on %s", part.name, machine)
      self._hosts[part.name] = machine.host
      self._members[part.name] = _Member(
        part, machine, self._cluster.start(machine, task)
      )

  def _hear(self, member: _Member) -> None:
    """Goes on with an agent, or gives it up."""
    name = member.part.name
    try:
      self._talk(member)
    except cluster_lib.LostError as error:
      self._lose(name, str(error), crashed=True)
    except RuntimeError as error:
      self._fail(failures.Failure(f"the part {name!r} failed: {error}", ""))
      self._lose(name, str(error), crashed=False)

  def _talk(self, member: _Member) -> None:
    """Takes an answer if there is one, and asks what is next."""
    if member.agent.busy:
      try:
        answer = member.agent.answer()
      except TimeoutError:
        if member.lost:
          self._lose(member.part.name, "it does not answer", crashed=False)
        return
      member.heard_at_s = time.monotonic()
      self._take(member, answer)
    if member.stage is _Stage.READY:
      self._start(member)
    elif member.stage is _Stage.RUNNING and not member.ended:
      self._ask(member)

  def _take(self, member: _Member, answer: typing.Any) -> None:
    name = member.part.name
    if member.stage is _Stage.STARTED:
      member.stage = _Stage.RUNNING
      self._log.info("%s has started on %s", name, member.machine.host)
      control = answer.pop("localhost", None)
      for service, address in answer.items():
        self._log.info("%s is at %s", service, address)
      self._endpoints.update(answer)
      if control is not None:
        self._on_control(control)
    else:
      self._take_report(member, answer)

  def _take_report(self, member: _Member, report: agent_lib.Report) -> None:
    name = member.part.name
    self._strangers[name] = report.strangers
    for log, said in report.logs.items():
      path = self._run.folder.logs / _log_name(log, name)
      path.parent.mkdir(exist_ok=True)
      self._outbox.append(path, said)
      node_log.NodeLog(path).trim()
    if not report.ended:
      return
    member.ended = True
    self._log.info("%s has ended", name)
    if report.failure is not None:
      self._fail(report.failure)
    if name == placement_lib.HOME:
      self._end_soon()  # the control node has ended, the others with it

  def _start(self, member: _Member) -> None:
    """Lets a part start, once it can reach the control node."""
    first = member.part.name == placement_lib.HOME
    if not first and agent_lib.CONTROL not in self._endpoints:
      return
    member.stage = _Stage.STARTED
    member.heard_at_s = time.monotonic()
    member.agent.call("start", self.expected, self._endpoints)

  def _ask(self, member: _Member) -> None:
    if not member.agent.busy and time.monotonic() >= member.ask_at_s:
      member.ask_at_s = time.monotonic() + _ASK_PERIOD_S
      member.agent.call(
        "poll",
        agent_lib.Orders(self._endpoints, self._stopping, self._hurry),
      )

  def _lose(self, name: str, why: str, crashed: bool) -> None:
    """Gives a part up, to be placed again if the run goes on."""
    member = self._members.pop(name)
    self._log.info("%s on %s is lost: %s", name, member.machine.host, why)
    with contextlib.suppress(Exception):
      member.agent.kill()
    if member.ended or self._hurry:
      return
    if name == placement_lib.HOME:
      self._fail(failures.Failure(f"the part {name!r} was lost: {why}", ""))
      return
    self._placement.lose(name)
    now_s = time.monotonic()
    there = {machine.id for machine in self._cluster.machines()}
    if not crashed or member.machine.id not in there:
      # A machine that was lost is no crash, however often.
      self._shunned[member.machine.id] = now_s + _SHUNNED_S
    elif self._restarts[name].delay_s(now_s) is None:
      self._fail(failures.Failure(f"the part {name!r} crashed: {why}", ""))

  def _fail(self, failure: failures.Failure) -> None:
    self._failure = self._failure or failure
    self._log.info("%s", failure.line)
    self._end_soon()

  def _end_soon(self) -> None:
    self._stopping = self._hurry = True
    deadline_s = time.monotonic() + _GRACE_S
    self._deadline_s = min(self._deadline_s, deadline_s)


def _log_name(log: str, part: str) -> str:
  """The name in the run's folder of a log of a part."""
  return f"runner-{part.replace('/', '-')}" if log == "runner" else log
