"""Flame graph: a picture of the functions in which processes spend their time.

https://www.brendangregg.com/flamegraphs.html
"""

import collections
import html
import itertools
from collections.abc import Iterator, Mapping, Sequence

from slipway.launch.control import sampling
from slipway.launch.profiling import steps

_WIDTH, _ROW, _LETTER = 1200.0, 17, 6.7  # pixels
_MIN_WIDTH = 0.5  # pixels of the narrowest box that is drawn
# Frames that begin every stack of a thread.
_OUTERMOST = "threading:Thread."
_STYLE = "text{font:11px monospace;pointer-events:none}rect{stroke:#fff}"

# A stack with its process and thread, its step, and its part of the time.
_Stack = tuple[tuple[str, ...], str, float]


def to_svg(profiles: Mapping[str, sampling.Profile]) -> str:
  """Returns a picture as SVG: processes, their threads, and functions below.

  A width is a part of the time, in which a thread does not wait; a colour is a
  step of the data path. The pointer on a box shows its whole name and share.

  Args:
    profiles: profile of each process, by its name.
  """
  stacks: list[_Stack] = []
  for process, profile in profiles.items():
    found = steps.find_steps(profile)
    for thread, samples in profile.threads.items():
      for stack, count in collections.Counter(samples.stacks).items():
        if stack == sampling.NO_STACK or found[stack] == steps.WAITING:
          continue
        frames = (profile.frames[x] for x in profile.stacks[stack])
        named = (x for x in frames if not x.startswith(_OUTERMOST))
        path = (process, thread, *named)
        stacks.append((path, found[stack], count / len(samples.stacks)))
  scale = _WIDTH / (sum(share for *_, share in stacks) or 1.0)
  height = _ROW * max((len(path) for path, *_ in stacks), default=1)
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" preserveAspectRatio="xMidYMin" '
    f'viewBox="0 0 {_WIDTH:.0f} {height}"><style>{_STYLE}</style>'
    f"{''.join(_draw(sorted(stacks), 0, 0.0, scale))}</svg>\n"
  )


def _draw(
  stacks: Sequence[_Stack], depth: int, left: float, scale: float
) -> Iterator[str]:
  """Yields the boxes of sorted stacks from a depth on."""
  deep = (stack for stack in stacks if len(stack[0]) > depth)
  for name, group in itertools.groupby(deep, lambda stack: stack[0][depth]):
    below = list(group)
    share = sum(part for *_, part in below)
    width = share * scale
    if width >= _MIN_WIDTH:
      whole = name.removeprefix("slipway.")
      method = whole.rpartition(":")[2]
      labels = (whole, method, method.rpartition(".")[2])
      label = next((x for x in labels if len(x) * _LETTER < width - 2), "")
      hue = 360 * steps.ORDER.index(below[0][1]) // len(steps.ORDER)
      colour = f"hsl({hue},60%,75%)" if depth > 1 else "#ddd"
      y = depth * _ROW
      yield (
        f"<g><title>{html.escape(name)}: {share:.1%} of a thread</title>"
        f'<rect x="{left:.1f}" y="{y}" width="{width:.1f}" height="{_ROW}" '
        f'fill="{colour}"/><text x="{left + 2:.1f}" y="{y + 12}">'
        f"{html.escape(label)}</text></g>"
      )
      yield from _draw(below, depth + 1, left, scale)
    left += width
