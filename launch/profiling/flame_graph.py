"""Flame graph: a picture of the functions in which processes spend their time.

https://www.brendangregg.com/flamegraphs.html
"""

import collections
import dataclasses
import html
from collections.abc import Iterator, Mapping

from slipway.launch.control import sampling
from slipway.launch.profiling import steps

_WIDTH, _ROW, _LETTER = 1200.0, 17, 6.7  # pixels
_MIN_WIDTH = 0.5  # pixels of the narrowest box that is drawn
# Frames that begin every stack of a thread.
_OUTERMOST = "threading:Thread."
_STYLE = "text{font:11px monospace;pointer-events:none}rect{stroke:#fff}"


@dataclasses.dataclass
class _Box:
  """A function below its callers.

  Attributes:
    count: samples in the function or those that it calls.
    step: step of the newest of these samples.
    calls: the functions that it calls, by name.
  """

  count: float = 0.0
  step: str = ""
  calls: "collections.defaultdict[str, _Box]" = dataclasses.field(
    default_factory=lambda: collections.defaultdict(_Box)
  )


def to_svg(profiles: Mapping[str, sampling.Profile]) -> str:
  """Returns a picture as SVG: processes, their threads, and functions below.

  A width is a part of the time, in which a thread does not wait; a colour is a
  step of the data path. The pointer on a box shows its whole name and share.

  Args:
    profiles: profile of each process, by its name.
  """
  root = _Box()
  for name, profile in profiles.items():
    found = steps.find_steps(profile)
    for thread, samples in profile.threads.items():
      weight = 1.0 / max(1, len(samples.stacks))
      for stack, count in collections.Counter(samples.stacks).items():
        if stack == sampling.NO_STACK or found[stack] == steps.WAITING:
          continue
        frames = [profile.frames[x] for x in profile.stacks[stack]]
        named = [x for x in frames if not x.startswith(_OUTERMOST)]
        _add(root, [name, thread, *named], found[stack], weight * count)
  boxes = list(_draw(root, "all processes", 0.0, 0, _WIDTH / (root.count or 1)))
  height = _ROW * (1 + max(depth for depth, _ in boxes))
  drawn = "".join(box for _, box in boxes)
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" preserveAspectRatio="xMidYMin" '
    f'viewBox="0 0 {_WIDTH:.0f} {height}"><style>{_STYLE}</style>'
    f"{drawn}</svg>\n"
  )


def _add(root: _Box, path: list[str], step: str, count: float) -> None:
  """Adds samples to a function and its callers."""
  box = root
  for name in path:
    box.count += count
    box.step = step
    box = box.calls[name]
  box.count, box.step = box.count + count, step


def _draw(
  box: _Box, name: str, left: float, depth: int, scale: float
) -> Iterator[tuple[int, str]]:
  """Yields depth and SVG of a box and of all below it."""
  width = box.count * scale
  if width < _MIN_WIDTH and depth:
    return
  whole = name.removeprefix("slipway.")
  method = whole.rpartition(":")[2]
  labels = (whole, method, method.rpartition(".")[2])
  label = next((x for x in labels if len(x) * _LETTER < width - 2), "")
  hue = 360 * steps.ORDER.index(box.step or steps.OTHER) // len(steps.ORDER)
  colour = "#ddd" if depth < 3 else f"hsl({hue},60%,75%)"
  yield (
    depth,
    (
      f"<g><title>{html.escape(f'{name}: {box.count:.1%} of a thread')}</title>"
      f'<rect x="{left:.1f}" y="{depth * _ROW}" width="{width:.1f}" '
      f'height="{_ROW}" fill="{colour}"/><text x="{left + 2:.1f}" '
      f'y="{depth * _ROW + 12}">{html.escape(label)}</text></g>'
    ),
  )
  for called, below in sorted(box.calls.items()):
    yield from _draw(below, called, left, depth + 1, scale)
    left += below.count * scale
