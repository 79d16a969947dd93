"""Panel: shows a run's status on the terminal while the run is active."""

import io
import os
import sys
import threading
import typing

import rich.console
import rich.live

from slipway.launch.display import lines as lines_lib
from slipway.launch.display import output as output_lib
from slipway.launch.display import rendering, standard_streams
from slipway.launch.runs import run_status

_LINE_PERIOD_S = 5.0  # seconds between two plain lines with the progress
# Seconds to wait until the previous status is written. After that time, the new
# status is not shown.
_WRITE_TIMEOUT_S = 0.01
# The same time for the last status of a run.
_LAST_WRITE_TIMEOUT_S = 2.0


class Panel:
  """Display of a run's status: in place on a terminal, else in plain lines.

  On a terminal, it pauses while a debugger that is based on `bdb`, such as pdb,
  traces code of this process.

  ```python
  with Panel() as panel:
    while running:
      panel.update(control.status())
  ```
  """

  def __init__(self, console: rich.console.Console | None = None):
    """Makes a panel that shows nothing yet.

    Args:
      console: the console to print to, or None for standard output.
    """
    self._output = None if console else _open_output()
    # The argument overrides FORCE_COLOR, which Jupyter and CI services set and
    # which would make rich treat a file as a terminal.
    self._console = console or rich.console.Console(
      file=typing.cast("typing.IO[str] | None", self._output),
      force_terminal=self._output is not None and self._output.isatty(),
    )
    self._live: rich.live.Live | None = None
    self._lock = threading.Lock()  # of `_live` and `_is_debugged`
    self._is_debugged = False
    if self._output is not None and self._console.is_terminal:
      sys.addaudithook(self._watch_debugger)  # can't be removed
    # Size of the console at the last update.
    self._size: rich.console.ConsoleDimensions | None = None
    # The last status that was printed as plain lines.
    self._printed: run_status.RunStatus | None = None
    self._line_due_s = 0.0

  def __enter__(self) -> "Panel":
    """Returns this panel."""
    return self

  def __exit__(self, *_: object) -> None:
    """Closes the panel."""
    self.close()

  def update(self, status: run_status.RunStatus) -> None:
    """Shows a status, or drops it if the previous one is not written yet.

    The output may be a terminal that is stopped or closed, a pipe without a
    reader, or a file on a full disk. The last status of a run waits up to 2 s
    for the previous one.
    """
    timeout_s = (
      _LAST_WRITE_TIMEOUT_S if status.phase == "stopped" else _WRITE_TIMEOUT_S
    )
    if self._output is not None and not self._output.wait_written(timeout_s):
      return
    if not self._console.is_terminal or self._console.is_dumb_terminal:
      self._print_lines(status)
      return
    with self._lock:
      if not self._is_debugged:
        self._draw(status)

  def _draw(self, status: run_status.RunStatus) -> None:
    """Draws the panel, in place of the last one unless the size has changed."""
    size = self._console.size
    if self._live is not None and size != self._size:
      # The terminal has wrapped the old panel, which can't be replaced now.
      self._live.stop()
      self._console.clear()
      self._live = None
    if self._live is None:
      self._live = rich.live.Live(console=self._console, auto_refresh=False)
      self._live.start()
    self._size = size
    self._live.update(rendering.render(status, self._console), refresh=True)

  def close(self) -> None:
    """Ends the display; the last status stays on the terminal.

    If the last status can't be written within 2 s, all later output of this
    process is dropped, since writing it would block, or fail at the exit.
    """
    with self._lock:
      self._stop_live()
    output = self._output
    if output is None:
      return
    if not output.wait_written(_LAST_WRITE_TIMEOUT_S) or output.failed:
      descriptors = [output.fileno()]
      if os.path.sameopenfile(output.fileno(), sys.stderr.fileno()):
        descriptors.append(sys.stderr.fileno())
      for descriptor in descriptors:
        standard_streams.discard(descriptor)

  def _stop_live(self) -> None:
    live, self._live = self._live, None
    if live is not None:
      live.stop()

  def _watch_debugger(self, event: str, args: tuple) -> None:
    """Pauses the panel before a debugger prompts; is an audit hook."""
    if event == "sys.settrace":
      # A tracer of another kind, such as that of coverage, has no prompt.
      if sys._getframe(1).f_globals.get("__name__") != "bdb":
        return
      is_debugged = sys.gettrace() is None  # else it ends
    elif event == "builtins.breakpoint":
      is_debugged = self._is_debugged
    else:
      return
    with self._lock:
      self._is_debugged = is_debugged
      self._stop_live()
    # The prompt, which is written directly, follows what pdb has printed.
    assert self._output is not None
    self._output.wait_written(_LAST_WRITE_TIMEOUT_S)
    self._output.flush_timeout_s = _LAST_WRITE_TIMEOUT_S * is_debugged

  def _print_lines(self, status: run_status.RunStatus) -> None:
    """Prints lines with new phases, evaluations, failures, and the progress."""
    lines, printed = [], self._printed
    if printed is None or status.phase != printed.phase:
      lines.append(lines_lib.phase_line(status))
    before = printed.evaluation.count if printed else 0
    # Evaluations before a resume were printed by the earlier process.
    if status.evaluation.count > before and status.evaluation.episodes:
      lines.append(lines_lib.evaluation_line(status))
    known = printed.first_failures if printed else {}
    lines += [
      lines_lib.failure_line(status, role)
      for role in status.first_failures
      if role not in known
    ]
    given = len(printed.advice) if printed else 0
    lines += [
      lines_lib.advice_line(status, sentence)
      for sentence in status.advice[given:]
    ]
    if status.wall_s >= self._line_due_s or status.phase == "stopped":
      lines.append(lines_lib.progress_line(status))
      self._line_due_s = status.wall_s + _LINE_PERIOD_S
    self._printed = status
    for line in lines:
      # Lines in a file are not wrapped.
      self._console.print(line, soft_wrap=True, markup=False, highlight=False)


def _open_output() -> output_lib.Output | None:
  """Returns standard output, or None if it is closed or a notebook's stream."""
  # Text written to the descriptor of a notebook's stream would not appear in
  # the cell's output.
  if not isinstance(sys.stdout, io.TextIOWrapper):
    return None
  try:
    return output_lib.Output(sys.stdout)
  except (OSError, ValueError):
    return None
