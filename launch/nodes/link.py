"""A node's link to the control node: reports one way, commands the other."""

import threading
import time
from collections.abc import Callable

import launchpad as lp
import msgspec
from absl import logging

from slipway.launch.orchestration import control_service, messages

# A node whose control node is down for so long stops: longer than a restart
# and a reconnection of that may take.
LOST_AFTER_S = 30.0


class Link:
  """Sends a node's reports to the control node and receives its commands.

  A thread of its own does both, so that a slow control node costs the node
  nothing. Made in `run`, in the node's own thread:

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
    period_s: float = 0.25,
    stop_event: threading.Event | None = None,
  ):
    """Starts reporting.

    Args:
      control: whose calls return or fail within a few seconds.
      role: of this node, one of `stop_order.ROLES`, or `stop_order.EXTERNAL`.
      index: of this node among those of its role.
      report: called in the link's thread, for the current report; its
        `incarnation` is set here.
      period_s: seconds between two reports.
      stop_event: ends the node when it is set; None: Launchpad's, of the
        program that the node belongs to.
    """
    self._control = control
    self._node = (role, index)
    self._make_report = report
    self._period_s = period_s
    # The counts of a node that is started again are from 0.
    self._incarnation = time.time()
    self._program_stopped = stop_event or lp.stop_event()
    self._command = messages.Command()
    self._stop = threading.Event()
    self._due = threading.Event()  # a report before the period is over
    self._closed = threading.Event()
    self._error: BaseException | None = None
    self._thread = threading.Thread(
      target=self._run, name=f"link of {role} {index}", daemon=True
    )
    self._thread.start()

  @property
  def command(self) -> messages.Command:
    """The newest command of the control node; before the first, the default.

    Whether to stop is a matter of `stopping`, which knows more reasons.
    """
    return self._command

  @property
  def stopping(self) -> bool:
    """Whether the node should end now.

    Raises:
      RuntimeError: the node's report could not be made.
    """
    if self._error is not None:
      raise RuntimeError("the link's thread failed") from self._error
    return self._stop.is_set() or self._program_stopped.is_set()

  def wait(self, timeout_s: float) -> bool:
    """Waits for a stop, at most `timeout_s` seconds; returns `stopping`."""
    self._stop.wait(timeout_s)
    return self.stopping

  def report_now(self) -> None:
    """Lets the next report leave at once; does not wait for it."""
    self._due.set()

  def __enter__(self) -> "Link":
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Reports for the last time, that the node has ended."""
    self._closed.set()
    self._due.set()
    self._thread.join(timeout=2 * LOST_AFTER_S)
    if error is None:
      try:
        self._control.finished(*self._node, self._read())
      except Exception as lost:
        logging.warning("control was not informed of this node's end: %s", lost)

  def _read(self) -> messages.Report:
    return msgspec.structs.replace(
      self._make_report(), incarnation=self._incarnation
    )

  def _run(self) -> None:
    answered_at_s = time.monotonic()
    while True:
      self._due.wait(self._period_s)
      # Cleared before the report is made: what is due later is in the next.
      self._due.clear()
      if self._closed.is_set():
        return
      try:
        report = self._read()
      except Exception as error:
        self._error = error
        return
      try:
        self._command = self._control.report(*self._node, report)
        if self._command.stop:
          self._stop.set()
        answered_at_s = time.monotonic()
      except Exception as error:
        if time.monotonic() - answered_at_s > LOST_AFTER_S:
          logging.error(
            "control has not answered for %.0f s (%s): this node stops",
            LOST_AFTER_S,
            error,
          )
          self._stop.set()
          return
