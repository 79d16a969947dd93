"""The program: the nodes of a run and who talks to whom, on one screen."""

import dataclasses
import importlib
import os
import typing
from collections.abc import Callable, Sequence

import launchpad as lp

from slipway.launch import site as site_lib
from slipway.launch.nodes import addresses
from slipway.launch.orchestration import control_service
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.processes import service_node
from slipway.launch.runs import run as run_lib

CONTROL_SOCKET = "control.sock"

# The node of each role, imported where it runs: the launcher is spared the CPU
# seconds of TensorFlow's import.
_CLASSES = {
  "control": "slipway.launch.nodes.control:Control",
  "replay": "slipway.launch.nodes.replay:Replay",
  "trainer": "slipway.launch.nodes.trainer_node:TrainerNode",
  "proxy": "slipway.launch.nodes.proxy:Proxy",
  "worker": "slipway.launch.nodes.worker_node:WorkerNode",
  "evaluator": "slipway.launch.nodes.evaluator_node:EvaluatorNode",
}


ControlHandle = service_node.Handle[control_service.ControlService]


@dataclasses.dataclass(frozen=True)
class NodeClass:
  """Makes the node of a role, in the process where it runs."""

  role: str

  def __call__(self, *args) -> typing.Any:
    """Makes the node; the last argument of all but the control node is that."""
    module, _, name = _CLASSES[self.role].partition(":")
    return getattr(importlib.import_module(module), name)(*args)


@dataclasses.dataclass(frozen=True)
class Wiring:
  """A run's nodes, and who talks to whom.

  Attributes:
    program: with all nodes that the run starts with here.
    nodes: role and index of each, in the order of starting.
    control: handle of its control node.
    data: addresses of the TrajectoryManagers.
    make_worker: makes the worker of an index where there are so many, for a
      program that has been launched: it is no node of that.
  """

  program: lp.Program
  nodes: Sequence[tuple[str, int]]
  control: ControlHandle
  data: addresses.DataAddresses
  make_worker: Callable[[int, int], service_node.ServiceNode]


def make_program(run: run_lib.Run, site: site_lib.Site) -> Wiring:
  """Wires a run, or one machine's part of it.

  ```
            variables            variables
     +--------------------+ +----------------+
     v                    | |                v
  worker -> proxy -> trajectory manager -> trainer
                          ^                  |
                          +------------------+ priorities
  ```

  Args:
    run: what is to run.
    site: what of it runs here.
  """
  config, spec, folder = run.config, run.spec, run.folder
  program = lp.Program(config.agent)
  rates = rates_lib.Rates.from_config(config, spec)
  servers = tuple(
    lp.Address(f"replay{shard}" if shard else "replay")
    for shard in range(site_lib.replay_servers(config))
  )
  data = addresses.DataAddresses(
    servers,
    site.memory_dir if config.topology.proxy else None,
    site.first_worker,
    site.replay_elsewhere,
    site.identity,
    site.network is not None and not site.replay_elsewhere,
  )
  control = _add_control(program, run, site)

  def make(role: str, *args) -> service_node.ServiceNode:
    return service_node.ServiceNode(None, NodeClass(role), *args, control)

  def make_worker(index: int, count: int) -> service_node.ServiceNode:
    # Its exploration depends on how many there are.
    as_it_is = config.copy_and_resolve_references()
    as_it_is.topology.workers = count
    return make("worker", as_it_is, spec, index, data)

  def make_replay(shard: int) -> service_node.ServiceNode:
    node = make(
      "replay",
      *(config, spec, folder, shard, servers[shard]),
      data.passing_path(shard),
    )
    servers[shard].assign(node)
    return node

  def make_trainer() -> service_node.ServiceNode:
    node = make("trainer", config, spec, folder, servers, data.passing_path(0))
    if config.topology.replay == "with_trainer":
      servers[0].assign(node)
    return node

  makers: dict[str, Callable[[int], service_node.ServiceNode]] = {
    "replay": make_replay,
    "trainer": lambda _: make_trainer(),
    "proxy": lambda index: make("proxy", index, data, rates.poll_period_s),
    "worker": lambda index: make_worker(index, site.expected["worker"]),
    "evaluator": lambda _: make("evaluator", config, spec, folder, data),
  }
  for role, index in site.nodes:
    if role != "control":
      program.add_node(makers[role](index), label=role)
  return Wiring(program, site.nodes, control, data, make_worker)


def _add_control(
  program: lp.Program, run: run_lib.Run, site: site_lib.Site
) -> ControlHandle:
  """Adds the control node if it runs here; returns its handle in any case."""
  path = os.path.join(site.memory_dir, CONTROL_SOCKET)
  handle = service_node.Handle(control_service.ControlService, path)
  if site.control_elsewhere:
    return handle
  node = service_node.ServiceNode(
    handle,
    NodeClass("control"),
    *(
      run.config,
      run.spec,
      run.folder,
      site.expected,
      run.started_at_s,
      os.getpid(),
    ),
    *(site.memory_dir, path),
  )
  return program.add_node(node, label="control")
