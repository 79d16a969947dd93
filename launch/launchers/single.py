"""Single: the launcher of mode 'single', which runs all in this process."""

import contextlib
import os
from collections.abc import Iterator

from absl import logging

from slipway.launch.control import rates as rates_lib
from slipway.launch.control import run_control
from slipway.launch.display import panel as panel_lib
from slipway.launch.launchers import single_loop
from slipway.launch.processes import controller, hung_process, tmpfs_directory
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import run as run_lib

# Error message for a user who changes the number of workers.
_ONE_WORKER_MESSAGE = (
  "mode 'single' has one worker, so the number of workers can't change: "
  "give it more environments (topology.environments_per_worker)"
)


def launch(run: run_lib.Run, signals: signals_lib.Signals) -> None:
  """Executes a run of mode 'single' to its end in this process.

  Args:
    run: the run to execute.
    signals: handler of the signals that this process receives.

  Raises:
    RuntimeError: the newest snapshot can't be used, or the last snapshot or
      the results could not be written.
    user_code.UserCodeError: the user's own code failed.
    KeyboardInterrupt: Ctrl-C was pressed twice.
  """
  control = run_control.RunControl(
    run.config,
    run.folder,
    {"worker": min(1, run.config.topology.workers), "trainer": 1},
    run.started_at_s,
    rates_lib.Rates.from_config(run.config, run.spec),
    workers_fixed_because=_ONE_WORKER_MESSAGE,
  )
  with panel_lib.Panel() as panel:

    def end_hung_run() -> None:
      panel.close()
      _end_failed_run(control)
      signals.clean_up()

    with (
      _ending_failed_run(control),
      hung_process.ending(
        run.config.environment.step_timeout_s, 1, "train", end_hung_run
      ),
    ):
      try:
        loop = single_loop.SingleLoop(
          run, control, lambda: signals.first is not None
        )
      except (ValueError, OSError) as error:
        raise RuntimeError(str(error)) from error
      with (
        tmpfs_directory.create() as memory_dir,
        controller.served(
          control, run.folder, os.path.join(memory_dir, controller.SOCKET)
        ),
      ):
        loop.run(lambda: panel.update(control.status()), signals)
      loop.report()
    try:
      control.close()
    except OSError as error:
      raise RuntimeError(str(error)) from error
    panel.update(control.status())


@contextlib.contextmanager
def _ending_failed_run(control: run_control.RunControl) -> Iterator[None]:
  """If the block raises an error, ends the run as failed, with its results.

  The results are written, and the hooks get their event 'end'. After a second
  Ctrl-C, nothing is written.
  """
  try:
    yield
  except KeyboardInterrupt:
    raise
  except BaseException:
    _end_failed_run(control)
    raise


def _end_failed_run(control: run_control.RunControl) -> None:
  """Ends a run as failed, and writes its results."""
  control.stop("failure")
  try:
    control.close()
  except OSError as error:
    logging.error("the results of the failed run are incomplete: %s", error)
