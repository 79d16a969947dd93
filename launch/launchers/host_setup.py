"""Host setup: makes the private network and the runner of a machine's nodes."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import cloudpickle
import fsspec
import ml_collections

from slipway.launch.launchers import host_plan
from slipway.launch.launchers import program as program_lib
from slipway.launch.processes import fork_server, node_process, processors
from slipway.launch.processes import private_network as private_network_lib
from slipway.launch.processes import runner as runner_lib

# Roles whose processes enter the private network, because they serve tables or
# read them without a proxy.
_ISOLATED_ROLES = ("replay", "trainer")


@contextlib.contextmanager
def private_network(
  config: ml_collections.ConfigDict,
) -> Iterator[private_network_lib.PrivateNetwork | None]:
  """Creates a private network for the processes that serve or read tables.

  Without a private network, every user of the machine can reach Reverb's
  servers.

  Yields:
    The network, which exists while the block runs. If the config or the system
    allows none, a warning is printed and None is yielded.
  """
  with contextlib.ExitStack() as held:
    network, obstacle = None, _find_obstacle(config)
    if not obstacle:
      try:
        network = held.enter_context(private_network_lib.create())
      except OSError as error:
        obstacle = f"this system allows no private network ({error})"
    if obstacle:
      warn_of_other_users(obstacle)
    yield network


def warn_of_other_users(because: str) -> None:
  """Prints a warning that other users can reach the run's tables.

  Args:
    because: the reason why there is no private network, as a clause.
  """
  print(
    "warning: other users of this machine can read and write the replay "
    f"tables, since {because}",
    file=sys.stderr,
    flush=True,
  )


def _find_obstacle(config: ml_collections.ConfigDict) -> str:
  """Returns why a config allows no private network, or '' if it allows one."""
  if not config.topology.proxy:
    return "workers without a proxy (topology.proxy) connect to them directly"
  url = config.snapshot.url
  if url and fsspec.utils.get_protocol(url) not in ("file", "local"):
    return f"the trainer needs the network for {url!r} (snapshot.url)"
  return ""


def make_runner(
  config: ml_collections.ConfigDict,
  server: fork_server.ForkServer,
  plan: host_plan.HostPlan,
  wiring: program_lib.Wiring,
  logs: pathlib.Path,
) -> runner_lib.Runner:
  """Makes the runner of a machine's nodes.

  Args:
    server: forks the nodes.
    plan: the machine's host plan.
    wiring: the nodes of the plan, and their connections.
    logs: folder of the nodes' logs.
  """

  def prepare(node: program_lib.NodeSpec) -> node_process.PreparedNode:
    """Prepares a node for the runner."""
    return node_process.PreparedNode(
      node.name,
      cloudpickle.dumps(node.run),
      processors.make_role_variables(node.role, config),
      plan.network if node.role in _ISOLATED_ROLES else None,
    )

  return runner_lib.Runner(
    server,
    [prepare(node) for node in wiring.nodes],
    plan.expected,
    logs,
    config.restarts.budget,
    config.restarts.period_s,
    lambda index, count: prepare(wiring.make_worker(index, count)),
  )
