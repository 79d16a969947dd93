"""The program: all nodes of a run and who talks to whom, on one screen."""

import dataclasses
import importlib
import os
import typing

import launchpad as lp
import ml_collections
from acme import specs

from launch import addresses, run_folder

# A call to the control node that takes longer is given up, so that no node
# hangs on it; nodes report again soon.
_CALL_TIMEOUT_S = 3


@dataclasses.dataclass(frozen=True)
class NodeClass:
  """Makes a node of a role: class `Trainer` of launch/trainer.py, and so on.

  Imports it where the node runs: the launcher is spared the CPU seconds of
  TensorFlow's import.
  """

  role: str

  def __call__(self, *args) -> typing.Any:
    """The node, as `lp.CourierNode` wants it made."""
    module = importlib.import_module(f"launch.{self.role}")
    return getattr(module, self.role.capitalize())(*args)


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
) -> tuple[lp.Program, lp.CourierHandle]:
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

  Returns:
    The program, and the handle of its control node.
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

  def add(role: str, *args) -> lp.CourierNode:
    node = lp.CourierNode(NodeClass(role), *args, control)
    program.add_node(node, label=role)
    return node

  if count["replay"]:
    server.assign(add("replay", config, spec, server))
  trainer = add("trainer", config, spec, folder, server)
  if not count["replay"]:
    server.assign(trainer)
  if count["proxy"]:
    add("proxy", data)
  for index in range(count["worker"]):
    add("worker", config, spec, index, data)
  add("evaluator", config, spec, folder, data)
  return program, control
