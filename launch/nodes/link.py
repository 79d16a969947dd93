"""A node's link to the control node: reports one way, directives the other."""

import threading
import time
import typing
from collections.abc import Callable, Mapping

import launchpad as lp
from absl import logging

from launch.orchestration import directive as directive_lib

# A node whose control node is gone for so long stops by itself: longer than it
# may take to start that again, and then to be connected again.
LOST_AFTER_S = 30.0


class Link:
  """Reports a node's counts to the control node and learns what to do.

  A thread of its own does both, so that a slow control node costs the node
  nothing. Made in `run`, in the node's own thread:

  ```python
  with link.Link(self._control, 'worker', 0, self._metrics) as node_link:
    while not node_link.stopping:
      ...  # as node_link.directive asks
  ```
  """

  def __init__(
    self,
    control: typing.Any,
    role: str,
    index: int,
    metrics: Callable[[], Mapping[str, typing.Any]],
    period_s: float = 0.25,
  ):
    """Starts reporting.

    Args:
      control: Courier client of the control node, with a call timeout.
      role: of this node, one of `stop_order.ROLES`.
      index: of this node among those of its role.
      metrics: called in the link's thread, for what to report.
      period_s: seconds between two reports.
    """
    self._control = control
    self._node = (role, index)
    self._metrics = metrics
    self._period_s = period_s
    # A node that is started again counts from 0: the ledger has to know.
    self._life = time.time()
    self._program_stopped = lp.stop_event()
    self._directive = directive_lib.Directive()
    self._stop = threading.Event()
    self._closed = threading.Event()
    self._error: BaseException | None = None
    self._thread = threading.Thread(
      target=self._run, name=f"link of {role} {index}", daemon=True
    )
    self._thread.start()

  @property
  def directive(self) -> directive_lib.Directive:
    """The newest answer of the control node; before the first, the default.

    Whether to stop is asked of `stopping`, which knows more reasons.
    """
    return self._directive

  @property
  def stopping(self) -> bool:
    """Whether the node should end now.

    Raises:
      RuntimeError: the node's metrics could not be read.
    """
    if self._error is not None:
      raise RuntimeError("the link's thread failed") from self._error
    return self._stop.is_set() or self._program_stopped.is_set()

  def wait(self, timeout_s: float) -> bool:
    """Waits for the time to stop, at most `timeout_s`; returns `stopping`."""
    self._stop.wait(timeout_s)
    return self.stopping

  def __enter__(self) -> "Link":
    return self

  def __exit__(self, error_type, error, traceback) -> None:
    """Reports for the last time, that the node has ended."""
    self._closed.set()
    self._thread.join(timeout=2 * LOST_AFTER_S)
    if error is None:
      try:
        self._control.finished(*self._node, self._read())
      except Exception as lost:
        logging.warning("control did not hear that this node ended: %s", lost)

  def _read(self) -> dict[str, typing.Any]:
    return {**self._metrics(), "life": self._life}

  def _run(self) -> None:
    heard_at = time.monotonic()
    while not self._closed.wait(self._period_s):
      try:
        metrics = self._read()
      except Exception as error:
        self._error = error
        return
      try:
        answer = self._control.report(*self._node, metrics)
        self._directive = directive_lib.Directive(*answer)
        if self._directive.stop:
          self._stop.set()
        heard_at = time.monotonic()
      except Exception as error:
        if time.monotonic() - heard_at > LOST_AFTER_S:
          logging.error(
            "control has not answered for %.0f s (%s): this node stops",
            LOST_AFTER_S,
            error,
          )
          self._stop.set()
          return
