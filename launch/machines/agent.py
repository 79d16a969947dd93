"""Agent: one machine's part of a run, as the run's fleet sees it.

A fleet (`slipway.launch.machines.fleet`) makes one on each machine, as an actor
of Ray or in its own process, and asks it again and again how it is. An agent
that is asked no more has lost its run, and ends what it has.
"""

import contextlib
import dataclasses
import os
import tempfile
import threading
import time
import typing
from collections.abc import Mapping

from slipway.launch import hosting, site
from slipway.launch import program as program_lib
from slipway.launch.machines import cluster_keys, placement
from slipway.launch.nodes import endpoint
from slipway.launch.processes import failures, fork_server, memory_folder
from slipway.launch.rpc import wire as rpc_wire
from slipway.launch.runs import run as run_lib
from slipway.launch.runs import run_folder
from slipway.replay.transport import gateway

CONTROL = "control"
# Seconds without a question after which a run is lost. Its fleet takes longer
# to give an agent up, so that no node is ever there twice.
UNASKED_S = 15.0
_LOOK_S = 0.5


class Task(typing.NamedTuple):
  """What an agent is made for.

  Attributes:
    part: of the run.
    run: with its folder on the machine that started it.
    host: address by which other machines reach this one.
    secure: whether machines talk mutual TLS.
  """

  part: placement.Part
  run: run_lib.Run
  host: str
  secure: bool


class Orders(typing.NamedTuple):
  """What a fleet tells an agent with each question.

  Attributes:
    endpoints: where the services of other machines are reached, by name.
    stopping: whether a node that ends is not started again.
    hurry: whether all nodes are to end now, in whatever order.
  """

  endpoints: Mapping[str, str]
  stopping: bool
  hurry: bool


class Report(typing.NamedTuple):
  """How an agent's part is.

  Attributes:
    ended: whether all its nodes have.
    failure: the one that ended them, if one did.
    logs: what was printed since the last report, by the log's name.
    strangers: connections refused so far, for want of a certificate.
  """

  ended: bool
  failure: failures.Failure | None
  logs: Mapping[str, bytes]
  strangers: int


class Agent:
  """Runs a part of a run as processes of its machine.

  ```python
  agent = Agent(task)
  services = agent.start(expected, endpoints)
  while not (report := agent.poll(orders)).ended: ...
  agent.close()
  ```
  """

  def __init__(self, task: Task):
    """Makes the folders of this machine; starts nothing."""
    self._task = task
    self._home = task.part.name == placement.HOME
    self._held = contextlib.ExitStack()
    # Before the one in memory, which is where temporary files go from then on.
    self._folder = task.run.folder if self._home else self._make_folder()
    self._memory_dir = self._held.enter_context(memory_folder.made())
    self._gateway: gateway.Gateway | None = None
    self._runner: typing.Any = None
    self._thread: threading.Thread | None = None
    self._failure: failures.Failure | None = None
    self._sent: dict[str, int] = {}  # bytes of each log
    self._asked_at_s = time.monotonic()
    self._closed = threading.Event()
    threading.Thread(
      target=self._end_when_unasked, name="unasked", daemon=True
    ).start()

  def start(
    self, expected: Mapping[str, int], endpoints: Mapping[str, str]
  ) -> dict[str, str]:
    """Starts all nodes.

    Args:
      expected: how many nodes of each role the run has.
      endpoints: where services of other machines are reached, by name.

    Returns:
      Where the services of this machine are reached from others, by name; with
      'localhost', the path of the control node's socket if that runs here.

    Raises:
      ValueError: one line: this machine has no identity in the cluster.
    """
    task = self._task
    identity = cluster_keys.identity() if task.secure else None
    self._gateway = gateway.Gateway(task.host, identity)
    self._learn(endpoints)
    roles = {role for role, _ in task.part.nodes}
    if CONTROL not in roles:
      way_out = self._endpoint(CONTROL).read
      self._gateway.reach(
        self._path(program_lib.CONTROL_SOCKET), way_out, rpc_wire.PREFACE
      )
    self._held.enter_context(
      fork_server.running(hosting.environment(self._memory_dir))
    )
    network = None
    if "trainer" in roles:
      network = self._held.enter_context(
        hosting.private_network(task.run.config)
      )
    wiring = program_lib.make_program(
      dataclasses.replace(task.run, folder=self._folder),
      site.Site(
        nodes=task.part.nodes,
        expected=expected,
        memory_dir=self._memory_dir,
        first_worker=task.part.first_worker,
        control_elsewhere=CONTROL not in roles,
        replay_elsewhere="trainer" not in roles,
        identity=identity,
        network=network,
      ),
    )
    self._runner = hosting.make_runner(
      task.run.config, wiring, self._folder.logs, network
    )
    services = self._offer(self._gateway, wiring)
    self._thread = threading.Thread(target=self._run, name="runner")
    self._thread.start()
    return services

  def poll(self, orders: Orders) -> Report:
    """Takes orders; says how this part is."""
    self._asked_at_s = time.monotonic()
    assert self._runner is not None and self._thread is not None
    assert self._gateway is not None
    self._learn(orders.endpoints)
    self._gateway.check()
    if orders.stopping:
      self._runner.stop_restarting()
    if orders.hurry:
      self._runner.hurry()
    ended = not self._thread.is_alive()
    logs = {} if self._home else self._new_logs()  # of all, if it has ended
    return Report(
      ended, self._failure, logs, self._gateway.stats().connections_refused
    )

  def close(self) -> None:
    """Kills what is left, and removes what this machine has of the run."""
    self._closed.set()
    if self._thread is not None:
      with contextlib.suppress(KeyboardInterrupt):
        self._runner.kill_at_once()
      self._thread.join()
    if self._gateway is not None:
      self._gateway.close()
    self._held.close()

  def _make_folder(self) -> run_folder.RunFolder:
    place = self._held.enter_context(memory_folder.made(tempfile.gettempdir()))
    name = self._task.run.folder.name
    return run_folder.RunFolder.create(place, name, overwrite=False)

  def _path(self, name: str) -> str:
    return os.path.join(self._memory_dir, name)

  def _endpoint(self, service: str) -> endpoint.Endpoint:
    return endpoint.Endpoint(endpoint.path_in(self._memory_dir, service))

  def _offer(
    self, way_in: gateway.Gateway, wiring: program_lib.Wiring
  ) -> dict[str, str]:
    services = {}
    if CONTROL in wiring.program.groups:
      services["localhost"] = wiring.control.path
      services[CONTROL] = way_in.offer(f"unix:{wiring.control.path}")
    if not wiring.data.elsewhere:
      for shard, server in enumerate(wiring.data.servers):
        services[str(server.name)] = way_in.offer(wiring.data.upstream(shard))
    return services

  def _learn(self, endpoints: Mapping[str, str]) -> None:
    for name, address in endpoints.items():
      known = self._endpoint(name)
      if known.read() != address:
        known.write(address)

  def _run(self) -> None:
    try:
      self._runner.run()
    except failures.NodeFailedError as error:
      here, there = str(self._folder.logs), str(self._task.run.folder.logs)
      failure = error.failure
      self._failure = failures.Failure(
        failure.line.replace(here, there), failure.whole
      )
    except KeyboardInterrupt:
      pass  # it was killed
    except Exception as error:
      part = self._task.part.name
      self._failure = failures.Failure(
        f"the part {part!r} failed: {type(error).__name__}: {error}", ""
      )

  def _new_logs(self) -> dict[str, bytes]:
    found = {}
    for path in sorted(self._folder.logs.rglob("*")):
      if path.is_file():
        name = str(path.relative_to(self._folder.logs))
        with path.open("rb") as file:
          sent = self._sent.get(name, 0)
          if file.seek(0, os.SEEK_END) < sent:  # it was cut
            sent = 0
          file.seek(sent)
          said = file.read()
        if said:
          found[name] = said
          self._sent[name] = sent + len(said)
    return found

  def _end_when_unasked(self) -> None:
    while time.monotonic() - self._asked_at_s < UNASKED_S:
      if self._closed.wait(_LOOK_S):
        return
    with contextlib.suppress(Exception):
      self.close()
    os._exit(1)  # Nobody waits for an answer.
