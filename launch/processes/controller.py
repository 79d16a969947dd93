"""Controller: the launcher's thread that controls a run and shows it."""

import contextlib
import dataclasses
import logging as std_logging
import os
import threading
import time
import typing
from collections.abc import Callable, Iterator, Mapping

from absl import logging

from slipway.configs import fields
from slipway.launch.control import control_service, run_control, run_state
from slipway.launch.control import rates as rates_lib
from slipway.launch.display import panel as panel_lib
from slipway.launch.display import standard_streams
from slipway.launch.processes import failures, restart_budget
from slipway.launch.processes import signals as signals_lib
from slipway.launch.rpc import server
from slipway.launch.runs import event_log, run_address, run_folder
from slipway.launch.runs import run as run_lib

# Name of the socket in the run's tmpfs directory at which a run is controlled.
SOCKET = "control.sock"
_TICK_PERIOD_S = 0.05  # seconds between two calls of `RunControl.tick`
_SHOW_PERIOD_S = 0.5  # seconds between two updates of the panel


class Crew(typing.Protocol):
  """What runs the nodes: the runner of a machine, or the cluster's supervisor.

  The controller calls `stop` and `has_failed` in its own thread.
  """

  def run(self) -> None:
    """Runs the nodes until all have ended; see `runner.Runner.run`."""
    ...

  def stop(self, is_quick: bool) -> None:
    """Makes the nodes save and end in the order of `stages`, until all ended.

    It is called regularly from the stop on.

    Args:
      is_quick: as in `stages.last_snapshot_s`.
    """
    ...

  @property
  def has_failed(self) -> bool:
    """Whether a node has failed for good, so that the run must stop."""
    ...

  def kill_at_once(self) -> None:
    """Makes `run` kill all nodes and raise KeyboardInterrupt."""
    ...


AnyCrew = typing.TypeVar("AnyCrew", bound=Crew)


class Controller:
  """Serves, ticks and shows a run's `RunControl` in the launcher's process.

  ```python
  with Controller(run, expected, memory_dir, signals) as controller:
    ...  # nodes get controller.socket
    controller.direct(runner, runner.set_workers)
    runner.run()
  ```

  The end of the block writes the run's results, unless the run is resumed.

  Attributes:
    control: the run's counts, limits and commands.
    socket: path of the socket at which processes of this user call `control`.
    reached: what a run had reached that has lost a state, or None.
  """

  def __init__(
    self,
    run: run_lib.Run,
    expected: Mapping[str, int],
    memory_dir: str,
    signals: signals_lib.Signals,
    workers_fixed_because: str = "",
    earlier: run_state.Earlier | None = None,
  ):
    """Opens the run's result files.

    Args:
      run: the run to control.
      expected: number of nodes of each role that will report.
      memory_dir: the run's tmpfs directory.
      signals: the signals that the launcher receives.
      workers_fixed_because: message of the error if a user changes the number
        of workers; empty if it can change.
      earlier: as for `RunControl`.

    Raises:
      RuntimeError: a file of the run can't be read or written.
    """
    # The capacity of a queue depends on the number of all workers.
    whole = fields.replace(run.config, "topology.workers", expected["worker"])
    try:
      self.control = run_control.RunControl(
        run.config,
        run.folder,
        expected,
        run.started_at_s,
        rates_lib.Rates.from_config(whole, run.spec),
        workers_fixed_because,
        earlier,
      )
    except (ValueError, OSError) as error:
      raise RuntimeError(str(error)) from error
    self.socket = os.path.join(memory_dir, SOCKET)
    self._folder, self._signals = run.folder, signals
    self._panel = panel_lib.Panel()
    self._display_works = True
    self._crew: Crew | None = None
    self._on_workers: Callable[[int], object] | None = None
    self.reached: run_state.Earlier | None = None
    self._error: BaseException | None = None
    self._closed = threading.Event()
    self._thread = threading.Thread(
      target=self._run, name="control", daemon=True
    )
    self._held = contextlib.ExitStack()

  def direct(
    self, crew: Crew, on_workers: Callable[[int], object] | None = None
  ) -> None:
    """Starts the thread; to be called once, before the nodes start.

    Args:
      crew: what runs the nodes.
      on_workers: function that is called regularly until the run is stopping,
        with the target number of workers; None if it can't change.
    """
    self._crew, self._on_workers = crew, on_workers
    self._thread.start()

  def __enter__(self) -> "Controller":
    """Serves the control until the end of the block."""
    with contextlib.ExitStack() as held:
      held.enter_context(_logged(self._folder))
      held.enter_context(served(self.control, self._folder, self.socket))
      self._held = held.pop_all()
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Ends the thread and writes the results.

    After a second Ctrl-C or a lost state, it writes none.

    Raises:
      RuntimeError: the thread has failed, or the results can't be written.
    """
    with self._held:
      self._closed.set()
      if self._thread.is_alive():
        self._thread.join()
      try:
        if isinstance(error, failures.StateLostError):
          self.reached = self.control.abandon()
        elif not isinstance(error, KeyboardInterrupt):
          self._write_results(failed=error is not None)
      finally:
        self._panel.close()

  def _write_results(self, failed: bool) -> None:
    """Writes the results of a run whose nodes have ended, and shows them."""
    if failed or self._error or not self.control.stopping:
      self.control.stop("failure")
    try:
      self.control.close()
    except OSError as error:
      if not failed:
        raise RuntimeError(str(error)) from error
      logging.error("the results of the failed run are incomplete: %s", error)
    self._show()
    if self._error is not None and not failed:
      raise RuntimeError(
        f"the control of the run failed: {self._error}"
      ) from self._error

  def _run(self) -> None:
    """Controls the run until `direct`'s block ends; the thread's function.

    An error makes all nodes save and end.
    """
    assert self._crew is not None
    try:
      self._control(self._crew)
    except Exception as error:
      self._error = error
      logging.exception("the control of the run failed:")
      self.control.stop("failure")
      self._crew.stop(is_quick=True)

  def _control(self, crew: Crew) -> None:
    """Ticks, shows and forwards signals until the block ends."""
    control, signals = self.control, self._signals
    show_due_s = time.monotonic() + _SHOW_PERIOD_S
    while not self._closed.wait(_TICK_PERIOD_S):
      now_s = time.monotonic()
      if signals.first is not None:
        control.stop(signals.first.name)
      if signals.snapshot_requested:
        # A run that is stopping rejects the call, but saves at its end anyway.
        with contextlib.suppress(ValueError):
          control.save()
        signals.snapshot_requested = False
      if crew.has_failed:
        control.stop("failure")
      control.tick()
      if control.stopping:
        crew.stop(control.stops_quickly)
      if now_s >= show_due_s:
        show_due_s = now_s + _SHOW_PERIOD_S
        if self._on_workers is not None and not control.stopping:
          self._on_workers(control.workers_target)
        self._show()

  def _show(self) -> None:
    """Shows the status; an error of the display does not end the run."""
    if self._display_works:
      try:
        self._panel.update(self.control.status())
      except Exception:
        self._display_works = False
        logging.exception(
          "the status is no longer shown, because the display failed:"
        )


def execute(
  run: run_lib.Run,
  count_expected: Callable[[run_lib.Run], Mapping[str, int]],
  memory_dir: str,
  signals: signals_lib.Signals,
  direct: Callable[[run_lib.Run, Controller], AnyCrew],
) -> AnyCrew:
  """Executes a run to its end, and resumes it where it loses a state.

  The trainer and the replay servers have states. If one of them dies, all nodes
  are started again from the newest snapshot, as by `slipway train --resume`,
  within the restart budget of one node.

  Args:
    run: the run to execute.
    count_expected: function that returns the number of nodes of each role that
      will report.
    memory_dir: the run's tmpfs directory.
    signals: the signals that the launcher receives.
    direct: function that makes a crew, and calls `Controller.direct` with it.

  Returns:
    The crew that has run the nodes to the end of the run.

  Raises:
    RuntimeError: a node failed more often than its restart budget allows, and
      its traceback has been printed; or as for `Controller`.
    KeyboardInterrupt: Ctrl-C was pressed twice; all nodes have been killed.
  """
  restarts = run.config.restarts
  lost = restart_budget.FailureHistory(
    restart_budget.RestartBudget(restarts.budget, restarts.period_s)
  )
  earlier = None
  while True:
    controller = Controller(
      run, count_expected(run), memory_dir, signals, "", earlier
    )
    try:
      with controller:
        crew = direct(run, controller)
        signals.set_second_interrupt_handler(crew.kill_at_once)
        try:
          crew.run()
        except failures.StateLostError as error:
          delay_s = lost.record(error.failure, time.monotonic())
          if delay_s is None:
            raise failures.NodeFailedError(lost.first) from error
          standard_streams.print_line(
            f"resuming from the newest snapshot: {error.failure.line}"
          )
          time.sleep(delay_s)
          raise
      return crew
    except failures.StateLostError:
      earlier = controller.reached
      assert earlier is not None  # as `with` has set it
      config = run.config
      for field, value in earlier.changes.items():
        config = fields.replace(config, field, value)
      run = dataclasses.replace(run, config=config, started_at_s=time.time())
    except failures.NodeFailedError as error:
      failures.print_traceback(error.failure)
      raise


@contextlib.contextmanager
def served(
  control: run_control.RunControl, folder: run_folder.RunFolder, path: str
) -> Iterator[None]:
  """Serves a run's control at a unix socket while the block runs.

  Args:
    control: the control of the run.
    folder: the run's folder, in which the address is published.
    path: path of the socket.
  """
  with (
    server.Server(path, control_service.ControlService, control),
    run_address.published(folder, path),
  ):
    yield


@contextlib.contextmanager
def _logged(folder: run_folder.RunFolder) -> Iterator[None]:
  """Appends this process's log records to `logs/control` in a block."""
  logger = std_logging.getLogger("absl")
  (handler,) = event_log.EventLog(folder.logs / "control").handlers
  level = logger.level
  logger.addHandler(handler)
  logger.setLevel(std_logging.INFO)
  try:
    yield
  finally:
    logger.removeHandler(handler)
    logger.setLevel(level)
