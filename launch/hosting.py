"""Hosting: a machine's part of a program, ready to run as its processes."""

import pathlib

import ml_collections

from launch import program as program_lib
from launch import site
from launch.processes import payloads, threads
from launch.processes import runner as runner_lib


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


def make_runner(
  config: ml_collections.ConfigDict,
  wiring: program_lib.Wiring,
  logs: pathlib.Path,
) -> runner_lib.Runner:
  """The runner of a program's nodes.

  Args:
    config: the whole config.
    wiring: of the nodes; binds their addresses, to ports of this machine.
    logs: folder of the nodes' logs.
  """
  environments = {
    role: threads.environment(role, config.learner.threads)
    for role in {"worker", *wiring.program.groups}
  }

  def make_worker(index: int, count: int) -> payloads.Payload:
    node = wiring.make_worker(index, count)
    return payloads.prepare_one("worker", index, node, environments["worker"])

  return runner_lib.Runner(
    payloads.prepare(wiring.program, wiring.nodes, environments),
    logs,
    config.restarts.budget,
    config.restarts.period_s,
    make_worker,
    site.replay_servers(config),
  )
