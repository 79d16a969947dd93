"""Link: sends a node's reports to the control, and receives commands."""

import contextvars
import threading
import time
from collections.abc import Callable

import msgspec
from absl import logging

from slipway.launch.control import control_service, messages, sampling

# Seconds for which all reports of an external process must fail before its run
# counts as ended. Nodes end with their launcher.
LOST_AFTER_S = 30.0
# Seconds between two checks whether the node should stop, before the first
# reply.
_CHECK_PERIOD_S = 0.05
# The event that stops the node of this thread, which is set by whoever runs it.
own_stop_event: contextvars.ContextVar[threading.Event] = (
  contextvars.ContextVar("own_stop_event")
)


class Link:
  """Sends a node's reports to the control and receives its commands.

  A background thread sends the reports, so a slow control does not delay
  the node. Only the start of the `with` block waits for the first command,
  because a node that starts during a pause must not work. The link must be made
  in the node's main thread:

  ```python
  with link.Link(self._control, 'worker', 0, self._report) as node_link:
    while not node_link.stopping:
      ...  # obeys node_link.command
  ```
  """

  def __init__(
    self,
    control: control_service.ControlService,
    role: str,
    index: int,
    report: Callable[[], messages.Report],
    period_s: float = messages.REPORT_PERIOD_S,
    stop_event: threading.Event | None = None,
  ):
    """Starts the thread that reports, at once and then periodically.

    Args:
      control: client of the control, with a timeout of a few seconds.
      role: the node's role, such as 'worker' or `messages.EXTERNAL`.
      report: function that returns the current report, called in the link's
        thread; the link sets the report's `incarnation`.
      period_s: seconds between two reports.
      stop_event: event that stops the node, or None for `own_stop_event`.
    """
    self._control = control
    self._node = (role, index)
    self._make_report = report
    self._period_s = period_s
    # Identifies this process among those of a restarted node, because each
    # counts from 0.
    self._incarnation = time.time()
    self._stop = stop_event or own_stop_event.get()
    self._command = messages.Command()
    self._replied = threading.Event()
    # Set if the next report is due before its period has passed.
    self._due = threading.Event()
    self._due.set()
    self._closed = threading.Event()
    self._error: BaseException | None = None
    self._profile: sampling.Profile | None = None
    self._thread = threading.Thread(
      target=self._run, name=f"link of {role} {index}", daemon=True
    )
    self._thread.start()

  @property
  def command(self) -> messages.Command:
    """The control's newest command.

    It is the default command if the node was stopped before the first reply. To
    decide whether to stop, read `stopping` instead of the command's `stop`.
    """
    return self._command

  @property
  def stopping(self) -> bool:
    """Whether the node should stop now.

    It is True once `stop_event` is set, as by the runner's signal. An external
    process also stops at the control's command, or if the control has not
    replied for `LOST_AFTER_S`.

    Raises:
      RuntimeError: the function `report` has raised an error.
    """
    if self._error is not None:
      raise RuntimeError("the link's thread failed") from self._error
    return self._stop.is_set()

  def wait(self, timeout_s: float) -> bool:
    """Waits for a stop for at most `timeout_s` seconds; returns `stopping`.

    Raises:
      RuntimeError: as `stopping`.
    """
    self._stop.wait(timeout_s)
    return self.stopping

  def report_now(self) -> None:
    """Makes the link's thread send a report at once, without waiting for it."""
    self._due.set()

  def __enter__(self) -> "Link":
    """Waits for the first command, or until the node should stop.

    Raises:
      RuntimeError: as `stopping`.
    """
    while not (self._replied.wait(_CHECK_PERIOD_S) or self.stopping):
      pass
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Ends the thread; sends the last report unless the block has failed."""
    self._closed.set()
    self._due.set()
    self._thread.join(timeout=2 * LOST_AFTER_S)
    if error is None:
      try:
        self._control.finished(*self._node, self._get_report())
      except Exception as error_of_call:
        logging.warning(
          "the control did not receive the last report: %s", error_of_call
        )

  def _get_report(self) -> messages.Report:
    """Returns the node's current report, with this process's incarnation."""
    profile, self._profile = self._profile, None
    return msgspec.structs.replace(
      self._make_report(), incarnation=self._incarnation, profile=profile
    )

  def _read_sampling_rate(self) -> float:
    """Returns the samples of stacks per second; 0 if there is no profile."""
    return 0.0 if self._closed.is_set() else self._command.samples_per_s

  def _send_profile(self, profile: sampling.Profile) -> None:
    """Sends a profile with the next report."""
    self._profile = profile
    self._due.set()

  def _run(self) -> None:
    """Sends reports periodically, as the function of the link's thread."""
    # Counted from the first failed report instead of the last reply, because
    # this process itself may have been stopped in between.
    failing_since_s: float | None = None
    while True:
      self._due.wait(self._period_s)
      # Cleared before the report is made, so that a later request is not lost.
      self._due.clear()
      if self._closed.is_set():
        return
      try:
        report = self._get_report()
      except Exception as error:
        self._error = error
        return
      try:
        self._command = self._control.report(*self._node, report)
        if self._command.stop:
          self._stop.set()
        if self._command.samples_per_s > 0.0:
          sampling.start(self._read_sampling_rate, self._send_profile)
        self._replied.set()
        failing_since_s = None
      except Exception as error:
        now_s = time.monotonic()
        if failing_since_s is None:
          failing_since_s = now_s
        is_external = self._node[0] == messages.EXTERNAL
        if is_external and now_s - failing_since_s > LOST_AFTER_S:
          logging.error("the run does not reply, and has ended: %s", error)
          self._stop.set()
          return
