"""Local: the launcher of --launch=local_mp, with one process per node."""

import contextlib
import sys
import typing

from slipway.launch.processes import fork_server, tmpfs_directory
from slipway.launch.processes import signals as signals_lib

if typing.TYPE_CHECKING:
  from slipway.launch.processes import controller as controller_lib
  from slipway.launch.processes import runner as runner_lib
  from slipway.launch.runs import run as run_lib


class Host:
  """This machine's fork server and tmpfs directory, for the nodes of one run.

  The server imports TensorFlow and all nodes, which takes seconds. So it is
  started before everything else, and this process checks the run meanwhile.

  Attributes:
    memory_dir: path of the run's tmpfs directory.
  """

  def __init__(self):
    """Starts the fork server, without waiting for its imports.

    Raises:
      OSError: the directory or the process can't be made.
    """
    with contextlib.ExitStack() as held:
      self.memory_dir = held.enter_context(tmpfs_directory.create())
      environment = fork_server.make_environment_variables(self.memory_dir)
      held.enter_context(fork_server.run_server(environment))
      self._held = held.pop_all()

  def close(self) -> None:
    """Kills the server and what its nodes have left, and removes the folder."""
    self._held.close()


def launch(
  run: "run_lib.Run", signals: signals_lib.Signals, host: Host
) -> None:
  """Executes a run to its end on this machine, with one process per node.

  Args:
    run: the run to execute.
    signals: handler of the signals that this process receives.
    host: fork server of the nodes.

  Raises:
    RuntimeError: a node failed more often than its restart budget
      allows; its traceback has been printed.
    KeyboardInterrupt: Ctrl-C was pressed twice; all nodes have been killed.
  """
  # Imported here, because the fork server imports them meanwhile.
  from slipway.launch.launchers import host_plan, host_setup
  from slipway.launch.launchers import program as program_lib
  from slipway.launch.processes import controller as controller_lib

  with host_setup.private_network(run.config) as network:

    def direct(
      run: "run_lib.Run", controller: "controller_lib.Controller"
    ) -> "runner_lib.Runner":
      plan = host_plan.HostPlan.for_single_host(
        run.config, host.memory_dir, controller.socket, network
      )
      wiring = program_lib.make_program(run, plan)
      runner = host_setup.make_runner(run.config, plan, wiring, run.folder.logs)
      controller.direct(runner, runner.set_workers)
      return runner

    runner = controller_lib.execute(
      run,
      lambda run: host_plan.count_expected_nodes(run.config),
      host.memory_dir,
      signals,
      direct,
    )
  if runner.last_error is not None:
    print(f"warning: {runner.last_error.line}", file=sys.stderr)
