"""Controller: the launcher's thread that controls a run and shows it."""

import contextlib
import dataclasses
import logging as std_logging
import os
import threading
import time
import typing
from collections.abc import Callable, Iterator

from absl import logging

from slipway.configs import fields
from slipway.launch.control import (
  calls,
  control_service,
  run_control,
  run_state,
)
from slipway.launch.control import rates as rates_lib
from slipway.launch.display import panel as panel_lib
from slipway.launch.display import standard_streams
from slipway.launch.processes import crew as crew_lib
from slipway.launch.processes import failures
from slipway.launch.processes import signals as signals_lib
from slipway.launch.runs import event_log, run_address, run_folder
from slipway.launch.runs import run as run_lib

_TICK_PERIOD_S = 0.05  # seconds between two calls of `RunControl.tick`
_SHOW_PERIOD_S = 0.5  # seconds between two updates of the panel

AnyCrew = typing.TypeVar("AnyCrew", bound=crew_lib.Crew)


class Controller:
  """Serves, ticks and shows a run's `RunControl` in the launcher's process.

  ```python
  with Controller(run, runner, socket, signals) as controller:
    controller.start()
    runner.run()
  ```

  The end of the block writes the run's results, unless the run is resumed.

  Attributes:
    control: the run's counts, limits and commands.
    reached: what a run had reached that has lost a state, or None.
  """

  def __init__(
    self,
    run: run_lib.Run,
    crew: crew_lib.Crew,
    socket: str,
    signals: signals_lib.Signals,
    workers_fixed_because: str = "",
    earlier: run_state.Earlier | None = None,
    rates: rates_lib.Rates | None = None,
    publishes: bool = True,
  ):
    """Opens the run's result files.

    Args:
      socket: path of the socket at which processes of this user call `control`.
      workers_fixed_because: message of the error if a user changes the number
        of workers; empty if it can change.
      earlier: as for `RunControl`.
      rates: the run's rates, or None for those of the expected workers.
      publishes: whether to publish the path of the socket.

    Raises:
      RuntimeError: a file of the run can't be read or written.
    """
    if rates is None:
      # The capacity of a queue depends on the number of all workers.
      workers = crew.expected["worker"]
      whole = fields.replace(run.config, "topology.workers", workers)
      rates = rates_lib.Rates.from_config(whole, run.spec)
    try:
      self.control = run_control.RunControl(
        run.config,
        run.folder,
        crew.expected,
        run.started_at_s,
        rates,
        workers_fixed_because,
        earlier,
      )
    except (ValueError, OSError) as error:
      raise RuntimeError(str(error)) from error
    self._crew, self._socket, self._publishes = crew, socket, publishes
    self._folder, self._signals = run.folder, signals
    self._panel = panel_lib.Panel()
    self._display_works = True
    self.reached: run_state.Earlier | None = None
    self._error: BaseException | None = None
    self._closed = threading.Event()
    self._thread = threading.Thread(
      target=self._run, name="control", daemon=True
    )
    self._held = contextlib.ExitStack()

  def start(self) -> None:
    """Starts the thread; to be called once, before the nodes start."""
    self._forward_signals()  # at once, so that nothing begins after a signal
    self._signals.run_started = True
    self._thread.start()

  def __enter__(self) -> "Controller":
    """Serves the control until the end of the block."""
    with contextlib.ExitStack() as held:
      held.enter_context(_logged(self._folder))
      held.enter_context(
        calls.Server(self._socket, control_service.ControlService, self.control)
      )
      if self._publishes:
        held.enter_context(run_address.published(self._folder, self._socket))
      self._held = held.pop_all()
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Ends the thread and writes the results.

    After a second Ctrl-C or a lost state, it writes none.

    Raises:
      RuntimeError: the thread has failed, or the results can't be written.
    """
    with self._held:
      self.end(error)

  def end(self, error: BaseException | None) -> None:
    """Does what `__exit__` does, but still serves the control."""
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
    """Controls the run until the block ends; an error stops it."""
    try:
      self._control()
    except Exception as error:
      self._error = error
      logging.exception("the control of the run failed:")
      self.control.stop("failure")
      self._crew.stop(is_quick=True)

  def _control(self) -> None:
    """Ticks, shows and forwards signals until the block ends."""
    control, crew = self.control, self._crew
    show_due_s = time.monotonic() + _SHOW_PERIOD_S
    while not self._closed.wait(_TICK_PERIOD_S):
      now_s = time.monotonic()
      self._forward_signals()
      if crew.has_failed:
        control.stop("failure")
      control.tick()
      if control.stopping:
        crew.stop(control.stops_quickly)
      if now_s >= show_due_s:
        show_due_s = now_s + _SHOW_PERIOD_S
        control.note_crew(crew.first_failures, crew.measure())
        if not control.stopping:
          crew.follow(control)
        self._show()

  def _forward_signals(self) -> None:
    """Stops or saves the run if a signal has requested it."""
    signals = self._signals
    if signals.first is not None:
      self.control.stop(signals.first.name)
    if signals.snapshot_requested:
      # A run that is stopping rejects the call, but saves at its end anyway.
      with contextlib.suppress(ValueError):
        self.control.save()
      signals.snapshot_requested = False

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
  memory_dir: str,
  signals: signals_lib.Signals,
  make_crew: Callable[[run_lib.Run, str], AnyCrew],
) -> AnyCrew:
  """Executes a run to its end, and resumes it where it loses a state.

  The trainer and the replay servers have states. If one of them dies, all nodes
  are started again from the newest snapshot, as by `slipway train --resume`,
  within the restart budget of one node.

  Args:
    memory_dir: the run's tmpfs directory.
    make_crew: function that returns what runs the nodes, given the run and the
      path of the socket that leads to its control.

  Returns:
    The crew that has run the nodes to the end of the run.

  Raises:
    RuntimeError: a node failed more often than its restart budget allows, and
      its traceback has been printed; or as for `Controller`.
    KeyboardInterrupt: Ctrl-C was pressed twice; all nodes have been killed.
  """
  restarts = run.config.restarts
  lost = failures.RestartBudget(restarts.budget, restarts.period_s)
  earlier, socket = None, socket_in(memory_dir)
  with contextlib.ExitStack() as held:
    while True:
      crew = make_crew(run, socket)
      controller = Controller(
        run, crew, socket, signals, earlier=earlier, publishes=False
      )
      try:
        with controller:
          if earlier is None:
            # Over all resumes, as a full disk might take no new file.
            held.enter_context(run_address.published(run.folder, socket))
          controller.start()
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


def socket_in(memory_dir: str) -> str:
  """Returns the path of the socket of a run with this tmpfs directory."""
  return os.path.join(memory_dir, "control.sock")


@contextlib.contextmanager
def _logged(folder: run_folder.RunFolder) -> Iterator[None]:
  """Appends this process's log records to `logs/control` in a block."""
  logger = std_logging.getLogger("absl")
  handler = event_log.Handler(folder.logs / "control")
  level = logger.level
  logger.addHandler(handler)
  logger.setLevel(std_logging.INFO)
  try:
    yield
  finally:
    logger.removeHandler(handler)
    logger.setLevel(level)
