"""The command `slipway plot`, which compares the curves of runs."""

import os
import pathlib
from collections.abc import Iterator, Sequence

from slipway.launch.checks import flags as flags_lib
from slipway.launch.runs import comparison, run_folder, statistics

# Sentences that begin the help.
_USAGE = """\
Draws the mean returns of runs, active or ended, in one picture.

  slipway plot runs/first runs/second --output=first_and_second.png

Runs whose configs differ only in the seed form one line: their mean, with its
95 % confidence interval. The final return of a run, which is printed, is the
mean of its evaluations in the last tenth of its environment steps."""
_FORMATS = ("png", "pdf", "svg")  # of pictures


def main(argv: Sequence[str]) -> None:
  """Draws the picture, and prints a line per group of runs.

  Raises:
    ValueError: a run can't be drawn, or a flag is invalid.
  """
  flags = flags_lib.Flags()
  flags.add_text(
    "output",
    "comparison.png",
    "Path of the picture, whose ending is its format: .png, .pdf or .svg. A "
    "file at a path that you give is replaced; one of the default name is not: "
    "the picture is then comparison-2.png and so on.",
  )
  runs = flags.parse(argv, _USAGE, has_words=True)
  if not runs:
    raise ValueError(
      "no run is given, so there is nothing to draw: give the folders of "
      "runs, such as runs/first"
    )
  output = pathlib.Path(flags.output)
  file_format = _get_format(output)
  groups = comparison.read(
    [run_folder.RunFolder.open(run, True) for run in runs]
  )
  content = comparison.draw(groups, file_format)
  output = _write(output, content, replace=bool(flags["output"].present))
  print("\n".join(_describe(groups)))
  print(f"picture: {output}")


def _get_format(path: pathlib.Path) -> str:
  """Returns the format of a picture from the ending of its path."""
  file_format = path.suffix.removeprefix(".").lower()
  if file_format not in _FORMATS:
    raise ValueError(
      f"--output={path} does not end in .png, .pdf or .svg, so the picture has "
      "no format: give a path with one of these endings"
    )
  return file_format


def _write(path: pathlib.Path, content: bytes, replace: bool) -> pathlib.Path:
  """Writes the picture, and returns its path."""
  stem, count = path.stem, 1
  try:
    while not replace and os.path.lexists(path):
      count += 1
      path = path.with_stem(f"{stem}-{count}")
    path.write_bytes(content)
  except OSError as error:
    raise ValueError(
      f"--output={path} can't be written ({error.strerror}), so there is no "
      "picture: give another path"
    ) from error
  return path


def _describe(groups: Sequence[comparison.Group]) -> Iterator[str]:
  """Yields a line per group: the mean of its runs' final returns."""
  for group in groups:
    returns = group.final_returns
    text = f"{group.name}: final return {returns.mean():,.2f}"
    bounds = statistics.interval(statistics.mean, returns)
    if interval := statistics.format_interval(bounds, ",.2f"):
      text += f" (95 % interval {interval})"
    yield text
