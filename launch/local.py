"""Launches a program as processes of this machine, and stops it in order."""

import sys

import ml_collections
from acme import specs

from launch import program as program_lib
from launch.processes import (
  failures,
  fork_server,
  memory_folder,
  payloads,
  threads,
  watch,
)
from launch.processes import runner as runner_lib
from launch.processes import signals as signals_lib
from launch.runs import run_folder


def launch(
  config: ml_collections.ConfigDict,
  spec: specs.EnvironmentSpec,
  folder: run_folder.RunFolder,
  started_at_s: float,
  signals: signals_lib.Signals,
) -> None:
  """Runs a program to its end.

  Args:
    config: the whole config, validated.
    spec: of one environment.
    folder: of the run.
    started_at_s: unix seconds of the user's command.
    signals: that this process takes.

  Raises:
    RuntimeError: a node failed for good; in one line, after its error was
      printed whole.
    KeyboardInterrupt: Ctrl-C came twice; all nodes have been killed.
  """
  try:
    with (
      memory_folder.made() as memory_dir,
      fork_server.running(_environment(memory_dir)),
    ):
      wiring = program_lib.make_program(
        config, spec, folder, memory_dir, started_at_s
      )
      runner = _make_runner(config, wiring, folder)
      signals.set_on_again(runner.kill_at_once)
      watcher = watch.Watch(
        wiring.control.dereference(),
        signals,
        runner.stop_restarting,
        runner.set_workers,
      )
      try:
        runner.run()
      finally:
        watcher.close()
  except failures.NodeFailedError as error:
    sys.stderr.write(error.failure.whole)
    raise


def _environment(memory_dir: str) -> dict[str, str]:
  """Of the fork server, for what its imports fix; a node's own come on top."""
  return {
    **threads.environment("worker", learner_threads=1),
    "TF_CPP_MIN_LOG_LEVEL": "1",  # no notices
    "PYTHONUNBUFFERED": "1",  # logs are whole, however it ends
    "TMPDIR": memory_dir,
  }


def _make_runner(
  config: ml_collections.ConfigDict,
  wiring: program_lib.Wiring,
  folder: run_folder.RunFolder,
) -> runner_lib.Runner:
  environments = {
    role: threads.environment(role, config.learner.threads)
    for role in wiring.program.groups
  }

  def make_worker(index: int, count: int) -> payloads.Payload:
    node = wiring.make_worker(index, count)
    return payloads.prepare_one("worker", index, node, environments["worker"])

  return runner_lib.Runner(
    payloads.prepare(wiring.program, environments),
    folder.logs,
    config.restarts.budget,
    config.restarts.period_s,
    make_worker,
  )
