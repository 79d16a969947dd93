"""Program: makes the Launchpad program of a run's nodes and connections."""

import dataclasses
import importlib
import typing
from collections.abc import Callable

import launchpad as lp

from slipway.configs import fields
from slipway.launch import host_plan
from slipway.launch.nodes import addresses
from slipway.launch.orchestration import control_service
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.processes import service_node
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


@dataclasses.dataclass(frozen=True)
class NodeClass:
  """A picklable function that makes a node's object in the node's process.

  Attributes:
    role: role of the node, such as 'worker'.
  """

  role: str

  def __call__(self, *args) -> typing.Any:
    """Imports the class of the role, and returns an instance made of `args`."""
    module, _, name = _NODE_CLASSES[self.role].partition(":")
    return getattr(importlib.import_module(module), name)(*args)


@dataclasses.dataclass(frozen=True)
class Wiring:
  """The nodes of a run on one machine, and their connections.

  Attributes:
    program: Launchpad program with the nodes that the machine starts with.
    data: addresses of the TrajectoryManagers, the Reverb servers.
    make_worker: function that returns the node of a further worker, given its
      index and the new number of workers.
  """

  program: lp.Program
  data: addresses.DataAddresses
  make_worker: Callable[[int, int], service_node.ServiceNode]


def make_program(run: run_lib.Run, plan: host_plan.HostPlan) -> Wiring:
  """Makes the nodes of a run on one machine, and connects them.

  The arrows show the flow of items to the trainer, and of variables and
  priorities back.

  ```
            variables            variables
     +--------------------+ +----------------+
     v                    | |                v
  worker -> proxy -> trajectory manager -> trainer
                          ^                  |
                          +------------------+ priorities
  ```

  Args:
    run: the run to execute.
    plan: which nodes run on this machine, and how they reach the others.
  """
  # These nodes' workers are those of all machines: the capacity of a queue
  # depends on their number.
  workers = plan.expected["worker"]
  config = fields.replace(run.config, "topology.workers", workers)
  spec, folder = run.spec, run.folder
  program = lp.Program(config.agent)
  rates = rates_lib.Rates.from_config(config, spec)
  servers = tuple(
    lp.Address(f"replay{shard}" if shard else "replay")
    for shard in range(host_plan.count_replay_servers(config))
  )
  data = addresses.DataAddresses(
    servers,
    plan.memory_dir if config.topology.proxy else None,
    plan.first_worker,
    plan.replay_is_remote,
    plan.identity,
    plan.network is not None and not plan.replay_is_remote,
  )
  control = service_node.Handle(
    control_service.ControlService, plan.control_socket
  )

  def make_node(role: str, *args) -> service_node.ServiceNode:
    """Returns a node whose object is made of `args` and a control client."""
    return service_node.ServiceNode(None, NodeClass(role), *args, control)

  def make_worker(index: int, count: int) -> service_node.ServiceNode:
    """Returns the node of worker `index` of `count` workers."""
    # A worker's exploration depends on the number of workers.
    current = fields.replace(config, "topology.workers", count)
    return make_node("worker", current, spec, index, data)

  def make_replay(shard: int) -> service_node.ServiceNode:
    """Returns the node of one replay server."""
    node = make_node(
      "replay",
      *(config, spec, folder, shard, servers[shard]),
      data.passing_path(shard),
    )
    servers[shard].assign(node)
    return node

  def make_trainer() -> service_node.ServiceNode:
    """Returns the node of the trainer, which may contain the replay server."""
    node = make_node(
      "trainer", config, spec, folder, servers, data.passing_path(0)
    )
    if config.topology.replay == "with_trainer":
      servers[0].assign(node)
    return node

  makers: dict[str, Callable[[int], service_node.ServiceNode]] = {
    "replay": make_replay,
    "trainer": lambda _: make_trainer(),
    "proxy": lambda index: make_node("proxy", index, data, rates.poll_period_s),
    "worker": lambda index: make_worker(index, workers),
    "evaluator": lambda _: make_node("evaluator", config, spec, folder, data),
  }
  for role, index in plan.nodes:
    program.add_node(makers[role](index), label=role)
  return Wiring(program, data, make_worker)
