"""Host setup: environment, private network and runner of a machine's nodes."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import fsspec
import ml_collections

from slipway.launch import host_plan
from slipway.launch import program as program_lib
from slipway.launch.processes import prepared_nodes, threads
from slipway.launch.processes import private_network as private_network_lib
from slipway.launch.processes import runner as runner_lib


@contextlib.contextmanager
def private_network(
  config: ml_collections.ConfigDict,
) -> Iterator[private_network_lib.PrivateNetwork | None]:
  """Yields a private network for the processes with the run's tables.

  Without a private network, Reverb serves every user of the machine. If the
  system allows none, this yields None and prints a warning.

  Args:
    config: the whole config.
  """
  with contextlib.ExitStack() as held:
    network, obstacle = None, _why_not_private(config)
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
    because: the reason why there is no private network.
  """
  print(
    "warning: other users of this machine can read and write the replay "
    f"tables, since {because}",
    file=sys.stderr,
    flush=True,
  )


def _why_not_private(config: ml_collections.ConfigDict) -> str:
  """Returns why a run needs the machine's network, or '' if it doesn't."""
  if not config.topology.proxy:
    return "workers without a proxy (topology.proxy) connect to them directly"
  url = config.snapshot.url
  if url and fsspec.utils.get_protocol(url) not in ("file", "local"):
    return f"the trainer needs the network for {url!r} (snapshot.url)"
  return ""


def make_runner(
  config: ml_collections.ConfigDict,
  wiring: program_lib.Wiring,
  logs: pathlib.Path,
  network: private_network_lib.PrivateNetwork | None,
) -> runner_lib.Runner:
  """Returns a runner of a program's nodes, and binds their addresses.

  Args:
    config: the whole config.
    wiring: the nodes and their connections.
    logs: folder of the nodes' logs.
    network: the private network of the wiring's host plan, or None.
  """
  environments = {
    role: threads.make_environment_variables(role, config.learner.threads)
    for role in {"worker", *wiring.program.groups}
  }

  def make_worker(index: int, count: int) -> prepared_nodes.PreparedNode:
    node = wiring.make_worker(index, count)
    return prepared_nodes.prepare_one(
      "worker", index, node, environments["worker"]
    )

  return runner_lib.Runner(
    prepared_nodes.prepare(wiring.program, wiring.nodes, environments, network),
    logs,
    config.restarts.budget,
    config.restarts.period_s,
    make_worker,
    host_plan.count_replay_servers(config),
  )
