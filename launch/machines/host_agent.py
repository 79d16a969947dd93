"""Host agent: runs the nodes of one machine for the cluster supervisor.

The supervisor (`slipway.launch.machines.cluster_supervisor`) starts one host
agent on each machine, as a Ray actor, and polls the agent regularly. If the
polls cease, the connection to the run is lost, so the agent kills its nodes.
"""

import contextlib
import dataclasses
import functools
import os
import socket
import tempfile
import threading
import time
import typing
from collections.abc import Collection, Mapping

from slipway.launch.launchers import host_plan, host_setup
from slipway.launch.launchers import program as program_lib
from slipway.launch.machines import admission, placement
from slipway.launch.nodes import endpoint
from slipway.launch.processes import failures, fork_server, tmpfs_directory
from slipway.launch.runs import machine_usage, run_folder
from slipway.launch.runs import run as run_lib
from slipway.replay.transport import gateway

CONTROL = "control"  # name of the service by which nodes reach the launcher
# Name of the socket at which an agent's gateway serves the control.
_CONTROL_SOCKET = "control.sock"
# Seconds without a poll after which an agent kills its nodes. The supervisor
# waits longer before it replaces an agent, so that no node ever runs twice.
POLL_TIMEOUT_S = 15.0
# Seconds that an agent may wait for the first poll, and then may take to start
# its nodes. Ray may first have to make a runtime environment, and the first
# import is slow.
START_TIMEOUT_S = 120.0
# Seconds between two checks whether the supervisor still polls.
_CHECK_PERIOD_S = 0.5


class AgentReport(typing.NamedTuple):
  """A host agent's reply to a poll.

  Attributes:
    ended: whether all nodes of the machine have ended.
    alive_roles: roles of the machine's nodes that have not ended.
    failure: the failure that has ended the nodes, or None if there was none.
    state_lost: whether it was that of a node with a state, so that the run is
      resumed.
    first_failures: as in `crew.Crew`.
    logs: bytes that were appended to each log since the last report, by the
      log's name; empty on the driver host.
    services: 'host:port' at which other machines reach each service of this
      one, by service name.
    connections_refused: number of connections that the gateway has refused so
      far; see `Gateway.stats`.
    usage: load of the machine, and usage of its processes.
  """

  ended: bool
  alive_roles: Collection[str]
  failure: failures.Failure | None
  state_lost: bool
  first_failures: Mapping[str, str]
  logs: Mapping[str, bytes]
  services: Mapping[str, str]
  connections_refused: int
  usage: machine_usage.MachineUsage


class HostAgent:
  """Runs a node group as processes of this machine, and reports to the driver.

  The cluster supervisor calls the methods remotely:

  ```python
  agent = HostAgent(group, run, host, secure, control_socket)
  while not agent.poll(expected, endpoints, None, False).ended: ...
  agent.close()
  ```
  """

  def __init__(
    self,
    group: placement.NodeGroup,
    run: run_lib.Run,
    host: str,
    secure: bool,
    control_socket: str,
  ):
    """Makes the run's folders on this machine, without starting nodes.

    Args:
      run: the run, with the path of its folder on the driver host.
      host: address by which other machines reach this one.
      secure: whether machines communicate over mutual TLS.
      control_socket: path of the launcher's socket on the driver host.
    """
    self._group, self._run = group, run
    self._host, self._secure = host, secure
    self._control_socket = control_socket
    self._on_driver = group.name == placement.HOME
    self._resources = contextlib.ExitStack()
    # The run's folder is made first. Python makes all temporary files in the
    # tmpfs directory once that exists, so a later folder would be in memory.
    self._folder = run.folder if self._on_driver else self._make_folder()
    self._memory_dir = self._resources.enter_context(tmpfs_directory.create())
    self._starting = threading.Lock()
    self._services: dict[str, str] = {}
    self._gateway: gateway.Gateway | None = None
    self._runner: typing.Any = None
    self._ports: list[socket.socket] = []  # reserved as long as the agent lives
    self._thread: threading.Thread | None = None
    self._failure: failures.Failure | None = None
    self._state_lost = False
    self._sent_bytes: dict[str, int] = {}  # by the log's name
    # Monotonic seconds at which the agent ends unless it is called before.
    self._call_due_s = time.monotonic() + START_TIMEOUT_S
    self._closed = threading.Event()
    threading.Thread(
      target=self._end_when_not_called, name="poll timeout", daemon=True
    ).start()

  def poll(
    self,
    expected: Mapping[str, int],
    endpoints: Mapping[str, str],
    last_stage: int | None,
    is_quick: bool,
  ) -> AgentReport:
    """Executes the supervisor's commands, and returns a report.

    The first call starts all nodes of the group. If there is no call for
    `POLL_TIMEOUT_S` seconds, the agent kills its nodes and ends.

    Args:
      expected: number of nodes of each role in the whole run.
      endpoints: 'host:port' of each service of the run, by service name; those
        of other machines that the group needs must be among them.
      last_stage: index of the last of `stages.STAGES` whose nodes should end,
        or None while the run is not stopping.
      is_quick: whether the last snapshot may take only seconds.

    Raises:
      ValueError: this machine has no valid certificate.
    """
    with self._starting:
      self._update_endpoints(endpoints)
      if self._thread is None:
        self._call_due_s = time.monotonic() + START_TIMEOUT_S
        self._thread = self._start(expected)
      self._call_due_s = time.monotonic() + POLL_TIMEOUT_S
    assert self._gateway is not None
    self._gateway.check()
    if last_stage is not None:
      self._runner.stop(is_quick, last_stage)
    ended = not self._thread.is_alive()
    # Read after `ended`, so that the logs are complete once all nodes have
    # ended. The driver host writes its logs to the run's folder itself.
    logs = {} if self._on_driver else self._read_new_logs()
    refused = self._gateway.stats().connections_refused
    return AgentReport(
      ended,
      self._runner.alive_roles,
      self._failure,
      self._state_lost,
      self._find_first_failures(),
      logs,
      self._services,
      refused,
      *self._runner.measure().values(),
    )

  def close(self) -> None:
    """Kills the remaining nodes, and removes the agent's temporary folders."""
    self._closed.set()
    if self._thread is not None:
      with contextlib.suppress(KeyboardInterrupt):
        self._runner.kill_at_once()
      self._thread.join()
    if self._gateway is not None:
      self._gateway.close()
    self._resources.close()

  def _start(self, expected: Mapping[str, int]) -> threading.Thread:
    """Starts the gateway and all nodes; returns the thread that runs them."""
    identity = None
    if self._secure:
      identity = admission.find_identity()
      if identity is None:
        raise ValueError(f"Ray on {self._host} uses no TLS, unlike the others")
      identity.check()
    self._gateway = gateway.Gateway(self._host, identity)
    control_socket = self._control_socket
    if not self._on_driver:
      control_socket = os.path.join(self._memory_dir, _CONTROL_SOCKET)
      path = endpoint.path_in(self._memory_dir, CONTROL)
      get_address = functools.partial(endpoint.read, path)
      self._gateway.reach(control_socket, get_address, preface=b"")
    server = fork_server.ForkServer(self._memory_dir)
    self._resources.callback(server.close)
    config, network = self._run.config, None
    has_trainer = ("trainer", 0) in self._group.nodes
    if has_trainer:
      network = self._resources.enter_context(
        host_setup.private_network(config)
      )
    plan = host_plan.HostPlan(
      nodes=self._group.nodes,
      expected=expected,
      memory_dir=self._memory_dir,
      control_socket=control_socket,
      first_worker=self._group.first_worker,
      may_be_joined=True,
      replay_is_remote=not has_trainer,
      identity=identity,
      network=network,
    )
    wiring = program_lib.make_program(
      dataclasses.replace(self._run, folder=self._folder), plan
    )
    self._runner = host_setup.make_runner(
      config, server, plan, wiring, self._folder.logs
    )
    self._ports = wiring.ports
    if self._on_driver:
      address = f"unix:{self._control_socket}"
      self._services[CONTROL] = self._gateway.offer(address)
    if has_trainer:
      for shard, server in enumerate(wiring.data.servers):
        upstream = wiring.data.upstream(shard)
        self._services[server.name] = self._gateway.offer(upstream)
    thread = threading.Thread(target=self._run_nodes, name="runner")
    thread.start()
    return thread

  def _make_folder(self) -> run_folder.RunFolder:
    """Makes a temporary run folder, for machines other than the driver host."""
    parent = self._resources.enter_context(
      tmpfs_directory.create(tempfile.gettempdir())
    )
    name = self._run.folder.name
    return run_folder.RunFolder.create(parent, name, overwrite=False)

  def _update_endpoints(self, endpoints: Mapping[str, str]) -> None:
    """Writes addresses that have changed to their endpoint files."""
    for name, address in endpoints.items():
      path = endpoint.path_in(self._memory_dir, name)
      if endpoint.read(path) != address:
        endpoint.write(path, address)

  def _run_nodes(self) -> None:
    """Runs the nodes, and records a failure; the function of a thread."""
    try:
      self._runner.run()
    except failures.NodeFailedError as error:
      self._state_lost = isinstance(error, failures.StateLostError)
      failure = error.failure
      self._failure = failures.Failure(
        self._name_log(failure.line), failure.traceback
      )
    except KeyboardInterrupt:
      pass  # `close` has killed the nodes
    except Exception as error:
      text = f"{type(error).__name__}: {error}"
      self._failure = failures.Failure(
        f"the node group {self._group.name!r} failed: {text}", ""
      )

  def _find_first_failures(self) -> dict[str, str]:
    """Returns the runner's `first_failures` with the logs' copies."""
    found = dict(self._runner.first_failures)
    return {role: self._name_log(line) for role, line in found.items()}

  def _name_log(self, line: str) -> str:
    """Returns a failure's line, whose log has a copy on the driver host."""
    return line.replace(str(self._folder.logs), str(self._run.folder.logs))

  def _read_new_logs(self) -> dict[str, bytes]:
    """Returns the bytes appended to each log since the last call, by path."""
    found = {}
    for path in sorted(self._folder.logs.rglob("*")):
      if path.is_file():
        name = str(path.relative_to(self._folder.logs))
        with path.open("rb") as file:
          sent = self._sent_bytes.get(name, 0)
          if file.seek(0, os.SEEK_END) < sent:  # the log was trimmed
            sent = 0
          file.seek(sent)
          data = file.read()
        if data:
          found[name] = data
          self._sent_bytes[name] = sent + len(data)
    return found

  def _end_when_not_called(self) -> None:
    """Ends this process if a call is late; the function of a thread."""
    while time.monotonic() < self._call_due_s:
      if self._closed.wait(_CHECK_PERIOD_S):
        return
    with contextlib.suppress(Exception):
      self.close()
    os._exit(1)  # at once, because no process waits for a reply any more
