"""Program: makes the nodes of a run on a machine, and their connections."""

import dataclasses
import importlib
import socket
import typing
from collections.abc import Callable

from slipway.configs import fields
from slipway.launch.control import calls, control_service
from slipway.launch.control import rates as rates_lib
from slipway.launch.launchers import host_plan
from slipway.launch.nodes import addresses
from slipway.launch.runs import run as run_lib

# Class of a node by role, as 'module:name'. A class is imported in the node's
# process, so that the launcher does not import TensorFlow, which takes seconds.
_NODE_CLASSES = {
  "replay": "slipway.launch.nodes.replay:Replay",
  "trainer": "slipway.launch.nodes.trainer_node:TrainerNode",
  "proxy": "slipway.launch.nodes.proxy:Proxy",
  "worker": "slipway.launch.nodes.worker_node:WorkerNode",
  "evaluator": "slipway.launch.nodes.evaluator_node:EvaluatorNode",
}

# Timeout in seconds of a node's calls, so that a launcher that was stopped
# (Ctrl-Z) costs no node its evaluation or its start.
_CALL_TIMEOUT_S = 30.0


@dataclasses.dataclass(frozen=True)
class NodeSpec:
  """A node of a run: what its process makes, from what can be pickled.

  Attributes:
    role: role of the node, such as 'worker'.
    index: index of the node among those of its role.
    args: arguments of the class of the role, before the client of the control.
    control_socket: path of the socket that leads to the run's control.
  """

  role: str
  index: int
  args: tuple[typing.Any, ...]
  control_socket: str

  @property
  def name(self) -> str:
    """The node's name, such as 'worker/0'."""
    return f"{self.role}/{self.index}"

  def run(self) -> None:
    """Imports the class of the role, makes the node, and runs it to its end."""
    module, _, name = _NODE_CLASSES[self.role].partition(":")
    node_class = getattr(importlib.import_module(module), name)
    control = calls.connect(
      control_service.ControlService, self.control_socket, _CALL_TIMEOUT_S
    )
    node_class(*self.args, control).run()


@dataclasses.dataclass(frozen=True)
class Wiring:
  """The nodes of a run on one machine, and their connections.

  Attributes:
    nodes: the nodes that the machine starts with, in the order of starting.
    data: addresses of the TrajectoryManagers, the Reverb servers.
    make_worker: function that returns the spec of a further worker, given its
      index and the new number of workers.
    ports: sockets that reserve the servers' ports as long as they exist.
  """

  nodes: list[NodeSpec]
  data: addresses.DataAddresses
  make_worker: Callable[[int, int], NodeSpec]
  ports: list[socket.socket]


def make_program(run: run_lib.Run, plan: host_plan.HostPlan) -> Wiring:
  """Makes the nodes of a run on one machine, and connects them.

  The arrows show the flow of items to the trainer, and of variables and
  priorities back. Variables pass through memory that the trainer shares with
  the nodes of its machine; other machines fetch them from the trajectory
  manager.

  ```
                     variables
     +---------------------------------------+
     v                                       |
  worker -> proxy -> trajectory manager -> trainer
                          ^                  |
                          +------------------+ priorities
  ```

  Args:
    plan: which nodes run on this machine, and how they reach the others.
  """
  # These nodes' workers are those of all machines: the capacity of a queue
  # depends on their number.
  workers = plan.expected["worker"]
  config = fields.replace(run.config, "topology.workers", workers)
  spec, folder = run.spec, run.folder
  rates = rates_lib.Rates.from_config(config, spec)
  shards = range(host_plan.count_replay_servers(config))
  # Ports of this machine, unless another machine has the servers.
  ports = [
    addresses.reserve_port() for _ in shards if not plan.replay_is_remote
  ]
  servers = tuple(
    addresses.Server(
      f"replay{shard}" if shard else "replay",
      f"127.0.0.1:{ports[shard].getsockname()[1]}" if ports else "",
    )
    for shard in shards
  )
  data = addresses.DataAddresses(
    servers,
    plan.memory_dir if config.topology.proxy else None,
    plan.first_worker,
    plan.replay_is_remote,
    plan.identity,
    plan.network is not None and not plan.replay_is_remote,
  )

  def make_worker(index: int, count: int) -> NodeSpec:
    """Returns the spec of worker `index` of `count` workers."""
    # A worker's exploration depends on the number of workers.
    current = fields.replace(config, "topology.workers", count)
    args = (current, spec, index, data)
    return NodeSpec("worker", index, args, plan.control_socket)

  def make_args(role: str, index: int) -> tuple[typing.Any, ...]:
    """Returns the arguments of a node that is no worker."""
    if role == "replay":
      server = servers[index].address
      return config, spec, folder, index, server, data.passing_path(index)
    if role == "trainer":
      hosts = [server.address for server in servers]
      shared = data.variables_path if data.proxy_dir else None
      is_read = plan.may_be_joined or not shared
      sent_to = hosts[0] if is_read else None
      return (
        *(config, spec, folder, hosts, data.passing_path(0)),
        *(sent_to, shared),
      )
    if role == "proxy":
      return index, data, rates.poll_period_s
    return config, spec, folder, data  # the evaluator

  nodes = [
    make_worker(index, workers)
    if role == "worker"
    else NodeSpec(role, index, make_args(role, index), plan.control_socket)
    for role, index in plan.nodes
  ]
  return Wiring(nodes, data, make_worker, ports)
