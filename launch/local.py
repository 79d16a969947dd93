"""Local: the launcher of --launch=local_mp, with one process per node."""

import sys

from slipway.launch.processes import failures, fork_server, tmpfs_directory
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Executes a run to its end on this machine, with one process per node.

  Args:
    run: the run to execute.
    signals: handler of the signals that this process receives.

  Raises:
    RuntimeError: a node failed more often than its restart budget
      allows; its traceback has been printed.
    KeyboardInterrupt: Ctrl-C was pressed twice; all nodes have been killed.
  """
  try:
    with tmpfs_directory.create() as memory_dir:
      environment = fork_server.make_environment_variables(memory_dir)
      with fork_server.run_server(environment):
        _run_nodes(run, signals, memory_dir)
  except failures.NodeFailedError as error:
    failures.print_traceback(error.failure)
    raise


def _run_nodes(
  run: run_lib.Run, signals: signals_lib.Signals, memory_dir: str
) -> None:
  """Runs all nodes of a run until all have ended; shows the run's status.

  Args:
    run: the run to execute.
    signals: handler of the signals that this process receives.
    memory_dir: the run's tmpfs directory.
  """
  # Imported here, because the fork server imports meanwhile, which takes
  # seconds.
  from slipway.launch import host_plan, host_setup
  from slipway.launch import program as program_lib
  from slipway.launch.processes import watch

  with host_setup.private_network(run.config) as network:
    plan = host_plan.HostPlan.for_single_host(run.config, memory_dir, network)
    wiring = program_lib.make_program(run, plan)
    runner = host_setup.make_runner(run.config, plan, wiring, run.folder.logs)
    signals.set_second_interrupt_handler(runner.kill_at_once)
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
    if runner.last_error is not None:
      print(f"warning: {runner.last_error.line}", file=sys.stderr)
