"""The program: all nodes of a run and who talks to whom, on one screen."""

import dataclasses
import importlib
import os
import typing
from collections.abc import Callable

import launchpad as lp
import ml_collections
from acme import specs

from launch.nodes import addresses
from launch.orchestration import rounds
from launch.runs import run_folder

# A call to the control node that takes longer is given up, so that no node
# hangs on it; nodes report again soon.
_CALL_TIMEOUT_S = 3


@dataclasses.dataclass(frozen=True)
class NodeClass:
  """Makes a node of a role: class `Trainer` of launch/nodes/trainer.py, say.

  Imports it where the node runs: the launcher is spared the CPU seconds of
  TensorFlow's import.
  """

  role: str

  def __call__(self, *args) -> typing.Any:
    """The node, as `lp.CourierNode` wants it made."""
    module = importlib.import_module(f"launch.nodes.{self.role}")
    return getattr(module, self.role.capitalize())(*args)


@dataclasses.dataclass(frozen=True)
class Wiring:
  """A run's nodes, and who talks to whom.

  Attributes:
    program: with all nodes that the run starts with.
    control: handle of its control node.
    make_worker: makes the worker of an index where there are so many, for a
      program that has been launched: it is no node of that.
  """

  program: lp.Program
  control: lp.CourierHandle
  make_worker: Callable[[int, int], lp.CourierNode]


def expected_nodes(config: ml_collections.ConfigDict) -> dict[str, int]:
  """How many nodes of each role a run has, the control node left out."""
  return {
    "replay": int(config.topology.replay == "own_process"),
    "trainer": 1,
    "evaluator": 1,
    "proxy": int(config.topology.proxy),
    "worker": config.topology.workers,
  }


def make_program(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  folder: run_folder.RunFolder,
  memory_dir: str,
  started_at_s: float,
) -> Wiring:
  """Wires a run.

  ```
            variables            variables
     +--------------------+ +----------------+
     v                    | |                v
  worker -> proxy -> trajectory manager -> trainer
                          ^                  |
                          +------------------+ priorities
  ```

  Args:
    config: the whole config, validated.
    spec: of one environment.
    folder: of the run.
    memory_dir: folder in memory, for the proxy's socket and variables.
    started_at_s: unix seconds of the user's command.
  """
  program = lp.Program(config.agent)
  count = expected_nodes(config)
  server = lp.Address("replay")
  data = addresses.DataAddresses(
    server, memory_dir if config.topology.proxy else None
  )

  node = lp.CourierNode(
    NodeClass("control"),
    courier_client_kwargs={"call_timeout": _CALL_TIMEOUT_S},
  )
  node.configure(
    *(config, folder, count, started_at_s, os.getpid(), memory_dir),
    node.courier_address,
  )
  control = program.add_node(node, label="control")

  def make(role: str, *args) -> lp.CourierNode:
    return lp.CourierNode(NodeClass(role), *args, control)

  def make_worker(index: int, count: int) -> lp.CourierNode:
    # Its exploration depends on how many there are.
    as_it_is = config.copy_and_resolve_references()
    as_it_is.topology.workers = count
    return make("worker", as_it_is, spec, index, data)

  def add(role: str, *args) -> lp.CourierNode:
    node = make(role, *args)
    program.add_node(node, label=role)
    return node

  if count["replay"]:
    server.assign(add("replay", config, spec, folder, server))
  trainer = add("trainer", config, spec, folder, server)
  if not count["replay"]:
    server.assign(trainer)
  if count["proxy"]:
    add("proxy", data, rounds.poll_period_s(config))
  for index in range(count["worker"]):
    program.add_node(make_worker(index, count["worker"]), label="worker")
  add("evaluator", config, spec, folder, data)
  return Wiring(program, control, make_worker)
