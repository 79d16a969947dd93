"""Controller: the launcher's thread that controls a run and shows it."""

import contextlib
import logging as std_logging
import os
import signal
import threading
import time
import typing
from collections.abc import Callable, Iterator, Mapping

from absl import logging

from slipway.configs import fields
from slipway.launch.display import panel as panel_lib
from slipway.launch.orchestration import control_service, run_control
from slipway.launch.orchestration import rates as rates_lib
from slipway.launch.processes import signals as signals_lib
from slipway.launch.rpc import server
from slipway.launch.runs import event_log, run_address, run_folder
from slipway.launch.runs import run as run_lib

# Name of the socket in the run's tmpfs directory at which a run is controlled.
SOCKET = "control.sock"
_TICK_PERIOD_S = 0.05  # seconds between two calls of `RunControl.tick`
_SHOW_PERIOD_S = 0.5  # seconds between two updates of the panel
# Seconds that a run may take to end after a stop signal, before the launcher is
# interrupted. A stop by a signal takes 1 to 9 s, but a run that is starting
# first waits until all nodes are up.
_STOP_GRACE_S = 30.0


class Crew(typing.Protocol):
  """What runs the nodes: the runner of a machine, or the cluster's supervisor.

  The controller calls the methods in its own thread.
  """

  @property
  def has_failed(self) -> bool:
    """Whether a node has failed for good, so that the run must stop."""
    ...

  def stop_restarting(self) -> None:
    """Restarts no node from now on, because the run is stopping."""
    ...

  def end_soon(self) -> None:
    """Kills the nodes that have not ended in 8 s or 10 s from now."""
    ...

  def force_shutdown(self) -> None:
    """Makes each node save its state and end now, without the stop order."""
    ...


class Controller:
  """Serves, ticks and shows a run's `RunControl` in the launcher's process.

  ```python
  with Controller(run, expected, memory_dir, signals) as controller:
    ...  # nodes get controller.socket
    controller.direct(runner, runner.set_workers)
    runner.run()
  ```

  The end of the block writes the run's results.

  Attributes:
    control: the run's counts, limits and commands.
    socket: path of the socket at which processes of this user call `control`.
  """

  def __init__(
    self,
    run: run_lib.Run,
    expected: Mapping[str, int],
    memory_dir: str,
    signals: signals_lib.Signals,
    workers_fixed_because: str = "",
  ):
    """Opens the run's result files.

    Args:
      run: the run to control.
      expected: number of nodes of each role that will report.
      memory_dir: the run's tmpfs directory.
      signals: the signals that the launcher receives.
      workers_fixed_because: message of the error if a user changes the number
        of workers; empty if it can change.

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
      )
    except (ValueError, OSError) as error:
      raise RuntimeError(str(error)) from error
    self.socket = os.path.join(memory_dir, SOCKET)
    self._folder, self._signals = run.folder, signals
    self._panel = panel_lib.Panel()
    self._display_works = True
    self._crew: Crew | None = None
    self._on_workers: Callable[[int, float], None] | None = None
    self._error: BaseException | None = None
    self._closed = threading.Event()
    self._thread = threading.Thread(
      target=self._run, name="control", daemon=True
    )
    self._held = contextlib.ExitStack()

  def direct(
    self, crew: Crew, on_workers: Callable[[int, float], None] | None = None
  ) -> None:
    """Starts the thread; to be called once, before the nodes start.

    Args:
      crew: what runs the nodes.
      on_workers: function that is called regularly until the run is stopping,
        with the target number of workers, and the monotonic seconds at which
        that number was read; None if it can't change.
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
    """Ends the thread and writes the results, but after a second Ctrl-C.

    Raises:
      RuntimeError: the thread has failed, or the results can't be written.
    """
    with self._held:
      self._closed.set()
      if self._thread.is_alive():
        self._thread.join()
      try:
        if not isinstance(error, KeyboardInterrupt):
          self._write_results(failed=error is not None)
      finally:
        self._panel.close()

  def _write_results(self, failed: bool) -> None:
    """Writes the results of a run whose nodes have ended, and shows them.

    Args:
      failed: whether the run has failed, so that its error is raised.
    """
    self.control.end("failure" if failed or self._error else None)
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
      self.control.force_shutdown("failure")
      self._crew.force_shutdown()

  def _control(self, crew: Crew) -> None:
    """Ticks, shows and forwards signals until the block ends.

    If the run has not ended 30 s after a stop signal, the launcher is
    interrupted by SIGINT, as by a second Ctrl-C.

    Args:
      crew: what runs the nodes.
    """
    control, signals = self.control, self._signals
    give_up_at_s = float("inf")
    show_due_s = time.monotonic() + _SHOW_PERIOD_S
    while not self._closed.wait(_TICK_PERIOD_S):
      now_s = time.monotonic()
      if signals.first is not None:
        give_up_at_s = min(give_up_at_s, now_s + _STOP_GRACE_S)
        control.stop(signals.first.name)
      if signals.snapshot_requested:
        # A run that is stopping rejects the call, but saves at its end anyway.
        with contextlib.suppress(ValueError):
          control.save()
        signals.snapshot_requested = False
      if crew.has_failed:
        control.force_shutdown("failure")
      control.tick()
      if control.stopping:
        crew.stop_restarting()
      if control.all_finished():
        crew.end_soon()
      if now_s > give_up_at_s:
        os.kill(os.getpid(), signal.SIGINT)
        give_up_at_s = float("inf")
      if now_s >= show_due_s:
        show_due_s = now_s + _SHOW_PERIOD_S
        if self._on_workers is not None and not control.stopping:
          self._on_workers(control.workers_target, now_s)
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
    run_address.published(folder, path, control.outbox),
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
