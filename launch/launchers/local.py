"""Local: the launcher of --launch=local_mp, with one process per node."""

import contextlib
import sys
import typing

from slipway.launch.processes import descendants, fork_server, tmpfs_directory
from slipway.launch.processes import signals as signals_lib

if typing.TYPE_CHECKING:
  from slipway.launch.processes import runner as runner_lib
  from slipway.launch.runs import run as run_lib


class Host:
  """This machine's fork server and tmpfs directory, for the nodes of one run.

  The server imports TensorFlow and all nodes, which takes seconds. So it is
  started before everything else, and this process checks the run meanwhile.

  Attributes:
    memory_dir: path of the run's tmpfs directory.
    server: the fork server.
  """

  def __init__(self):
    """Starts the fork server, without waiting for its imports.

    Raises:
      OSError: the directory or the process can't be made.
    """
    with contextlib.ExitStack() as held:
      self.memory_dir = held.enter_context(tmpfs_directory.create())
      self.server = fork_server.ForkServer(self.memory_dir)
      held.callback(self.server.close)
      self._held = held.pop_all()

  def close(self) -> None:
    """Kills the server and what its nodes have left, and removes the folder."""
    self._held.close()


def launch(
  run: "run_lib.Run", signals: signals_lib.Signals, host: Host
) -> None:
  """Executes a run to its end on this machine, with one process per node.

  Raises:
    RuntimeError: a node failed more often than its restart budget
      allows; its traceback has been printed.
    KeyboardInterrupt: Ctrl-C was pressed twice; all nodes have been killed.
  """
  # Imported here, because the fork server imports them meanwhile.
  from slipway.launch.launchers import host_plan, host_setup
  from slipway.launch.launchers import program as program_lib
  from slipway.launch.processes import controller as controller_lib

  # What nodes leave is found by its mark, and becomes no child of this process.
  descendants.adopt(enabled=False)
  with host_setup.private_network(run.config) as network:

    def make_runner(run: "run_lib.Run", socket: str) -> "runner_lib.Runner":
      plan = host_plan.HostPlan.for_single_host(
        run.config, host.memory_dir, socket, network
      )
      wiring = program_lib.make_program(run, plan)
      return host_setup.make_runner(
        run.config, host.server, plan, wiring, run.folder.logs
      )

    runner = controller_lib.execute(run, host.memory_dir, signals, make_runner)
  if runner.last_error is not None:
    print(f"warning: {runner.last_error.line}", file=sys.stderr)
