"""Launches a program as processes of this machine, and stops it in order."""

import sys

from slipway.launch import hosting, site
from slipway.launch import program as program_lib
from slipway.launch.processes import failures, fork_server, memory_folder, watch
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Runs a program to its end.

  Args:
    run: what to run.
    signals: that this process takes.

  Raises:
    RuntimeError: a node failed for good; in one line, after its error was
      printed whole.
    KeyboardInterrupt: Ctrl-C came twice; all nodes have been killed.
  """
  try:
    with (
      memory_folder.made() as memory_dir,
      # First: while it imports, the network is made.
      fork_server.running(hosting.environment(memory_dir)),
      hosting.private_network(run.config) as network,
    ):
      wiring = program_lib.make_program(
        run, site.Site.whole(run.config, memory_dir, network)
      )
      runner = hosting.make_runner(run.config, wiring, run.folder.logs, network)
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
      if runner.last_error is not None:
        print(f"warning: {runner.last_error.line}", file=sys.stderr)
  except failures.NodeFailedError as error:
    failures.print_whole(error.failure)
    raise
