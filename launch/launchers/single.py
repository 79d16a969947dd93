"""Single: the launcher of mode 'single', which runs all in this process."""

import shutil

from slipway.launch.control import rates as rates_lib
from slipway.launch.launchers import single_loop
from slipway.launch.processes import controller as controller_lib
from slipway.launch.processes import crew as crew_lib
from slipway.launch.processes import hung_process, tmpfs_directory
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib

# Error message for a user who changes the number of workers.
_ONE_WORKER_MESSAGE = (
  "mode 'single' has one worker, so the number of workers can't change: "
  "give it more environments (topology.environments_per_worker)"
)


class _Loop(crew_lib.Crew):
  """The crew whose nodes are a loop of this thread.

  Attributes:
    loop: the loop, which is set before `run`.
  """

  loop: single_loop.SingleLoop

  def _step(self) -> bool:
    """Runs the loop until the control stops the run; no node is left then."""
    self.loop.run()
    return False

  def _kill_all(self) -> None:
    """Does nothing, as the loop ends with this process."""


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Executes a run of mode 'single' to its end in this process.

  Raises:
    RuntimeError: the newest snapshot can't be used, or the last snapshot or
      the results could not be written.
    user_code.UserCodeError: the user's own code failed.
    KeyboardInterrupt: Ctrl-C was pressed twice.
  """
  expected = {"worker": min(1, run.config.topology.workers), "trainer": 1}
  crew = _Loop(run.folder.logs / "runner", expected)
  rates = rates_lib.Rates.from_config(run.config, run.spec)
  with (
    tmpfs_directory.create() as memory_dir,
    controller_lib.Controller(
      *(run, crew, controller_lib.socket_in(memory_dir), signals),
      workers_fixed_because=_ONE_WORKER_MESSAGE,
      rates=rates,
    ) as controller,
  ):

    def end_hung_run() -> None:
      controller.end(RuntimeError("an environment hangs"))
      signals.clean_up()
      shutil.rmtree(memory_dir, ignore_errors=True)

    timeout_s = run.config.environment.step_timeout_s
    with hung_process.ending(timeout_s, 1, "train", end_hung_run):
      try:
        crew.loop = single_loop.SingleLoop(
          run, controller.control, lambda: signals.first is not None
        )
      except (ValueError, OSError) as error:
        raise RuntimeError(str(error)) from error
      controller.start()
      crew.run()
