"""Hosting: a machine's part of a program, ready to run as its processes."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator

import fsspec
import ml_collections

from slipway.launch import program as program_lib
from slipway.launch import site
from slipway.launch.processes import payloads, threads
from slipway.launch.processes import private_network as private_network_lib
from slipway.launch.processes import runner as runner_lib


def environment(memory_dir: str) -> dict[str, str]:
  """Of the fork server, for what its imports fix; a node's own come on top.

  Args:
    memory_dir: of this machine's part of the run.
  """
  return {
    **threads.environment("worker", learner_threads=1),
    "TF_CPP_MIN_LOG_LEVEL": "1",  # no notices
    "PYTHONUNBUFFERED": "1",  # logs are whole, however it ends
    "TMPDIR": memory_dir,
  }


@contextlib.contextmanager
def private_network(
  config: ml_collections.ConfigDict,
) -> Iterator[private_network_lib.PrivateNetwork | None]:
  """A network for the processes with the run's tables, while this lasts.

  Where there can be none, the user is warned in one line: Reverb serves every
  user of the machine.

  Args:
    config: the whole config.
  """
  with contextlib.ExitStack() as held:
    network, refusal = None, _why_not_isolated(config)
    if not refusal:
      try:
        network = held.enter_context(private_network_lib.made())
      except OSError as error:
        refusal = f"this system allows no private network ({error})"
    if refusal:
      warn_of_other_users(refusal)
    yield network


def warn_of_other_users(because: str) -> None:
  """Prints the one line of a run without a private network."""
  print(
    "warning: other users of this machine can read and write the replay "
    f"tables, since {because}",
    file=sys.stderr,
    flush=True,
  )


def _why_not_isolated(config: ml_collections.ConfigDict) -> str:
  """Returns why processes of a run need the machine's network; '': none."""
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
  """The runner of a program's nodes.

  Args:
    config: the whole config.
    wiring: of the nodes; binds their addresses, to ports of this machine.
    logs: folder of the nodes' logs.
    network: that the wiring's site has.
  """
  environments = {
    role: threads.environment(role, config.learner.threads)
    for role in {"worker", *wiring.program.groups}
  }

  def make_worker(index: int, count: int) -> payloads.Payload:
    node = wiring.make_worker(index, count)
    return payloads.prepare_one("worker", index, node, environments["worker"])

  return runner_lib.Runner(
    payloads.prepare(wiring.program, wiring.nodes, environments, network),
    logs,
    config.restarts.budget,
    config.restarts.period_s,
    make_worker,
    site.replay_servers(config),
  )
