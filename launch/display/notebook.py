"""Notebook: a line and a curve in the output of a cell, updated in place."""

import contextlib
import io
import sys
import time
import typing

from slipway.launch.display import lines
from slipway.launch.runs import comparison, run_folder

_DRAW_PERIOD_S = 5.0  # seconds between two pictures of the curve
_WIDTH = 720  # width of the picture in pixels of a screen


def is_active() -> bool:
  """Returns whether a cell of a notebook shows this process's output."""
  ipython = sys.modules.get("IPython")
  return (
    ipython is not None
    and ipython.get_ipython() is not None
    and not isinstance(sys.stdout, io.TextIOWrapper)
  )


class Cell:
  """The output of a training in the cell that constructs the object."""

  def __init__(self, folder: run_folder.RunFolder):
    """Reserves the places of the line and the curve; needs `is_active`."""
    self._folder, self._draw_due_s = folder, 0.0
    # Kernels route what other threads display to any cell, but not updates.
    self._line, self._curve = (self._display("") for _ in range(2))

  def show(self, line: str) -> None:
    """Prints a line, or shows it in place of the last one of its kind."""
    if not lines.is_replaceable(line, self._folder.name):
      print(line, end="", flush=True)
      return
    self._line.update({"text/plain": line.rstrip()}, raw=True)
    if time.monotonic() >= self._draw_due_s:
      self.draw()

  def draw(self) -> None:
    """Shows the run's curve so far; a failure of matplotlib shows none."""
    from IPython import display  # pyright: ignore[reportMissingImports]

    with contextlib.suppress(Exception):
      # Not in Slipway's style, which would be that of the user's threads, too.
      group = comparison.read_run(self._folder)
      picture = comparison.draw_as_styled([group])
      self._curve.update(display.Image(data=picture, width=_WIDTH))
    self._draw_due_s = time.monotonic() + _DRAW_PERIOD_S

  def _display(self, text: str) -> typing.Any:
    """Displays a text, and returns its handle."""
    from IPython import display  # pyright: ignore[reportMissingImports]

    return display.display({"text/plain": text}, raw=True, display_id=True)
