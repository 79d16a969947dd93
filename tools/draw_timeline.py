"""Draws the pictures of a mode in docs/ from a trace of a recorded run.

    slipway profile runs/first --seconds=3 --samples_per_s=1000 \\
      --trace=trace.json
    python tools/draw_timeline.py trace.json docs/mode_async.svg --from_s=1 \\
      --seconds=0.5

The flow chart above has the steps of the data path in each process, with their
shares of the whole trace's time; the timeline below shows a part of it.
"""

import argparse
import collections
import html
import json
import pathlib

# Steps and colours, in the order of the data path.
_COLOURS = {
  "environment": "#f4a259",
  "actor": "#f7d06b",
  "adder": "#c5d86d",
  "writer": "#8cb369",
  "relay": "#5b8e7d",
  "table": "#2a9d8f",
  "dataset": "#4ea8de",
  "update": "#5e60ce",
  "priorities": "#9d8ce0",
  "variables": "#e56b6f",
  "evaluation": "#b56576",
  "snapshots": "#8d99ae",
}
_WIDTH, _LEFT, _RIGHT, _ROW, _BOX, _GAP = 1060, 100, 30, 30, 118, 30  # pixels
_LEAST = 0.002  # smallest share of a step in the flow chart


def read(path):
  """Returns slices (begin, end in s, step) by thread, and the whole length."""
  events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
  times_us = [event["ts"] for event in events if "ts" in event]
  first_us = min(times_us)
  processes, threads, begun = {}, {}, collections.defaultdict(list)
  lanes = collections.defaultdict(list)
  for event in events:
    key = event["pid"], event.get("tid")
    if event["ph"] == "M":
      names = threads if "tid" in event else processes
      names[key] = event["args"]["name"]
    elif event["ph"] == "B":
      begun[key].append(((event["ts"] - first_us) / 1e6, event["name"]))
    else:
      start_s, name = begun[key].pop()
      if not begun[key] and name in _COLOURS:
        lanes[key].append((start_s, (event["ts"] - first_us) / 1e6, name))
  named = {
    (processes[pid, None], threads[pid, tid]): lanes[pid, tid]
    for pid, tid in sorted(lanes)
  }
  return named, (max(times_us) - first_us) / 1e6


def draw_flow(lanes, length_s):
  """Returns the height and the SVG of a row of steps per process."""
  shares = collections.defaultdict(collections.Counter)
  for (process, _), slices in lanes.items():
    for start_s, end_s, step in slices:
      shares[process][step] += (end_s - start_s) / length_s
  parts, y = [], 10
  for row, process in enumerate(order(lanes)):
    names = [x for x in _COLOURS if shares[process][x] >= _LEAST]
    parts.append(f'<text x="8" y="{y + 20}">{html.escape(process)}</text>')
    if row and names == ["evaluation"]:
      parts += draw_arrow(y - _GAP, "variables", is_down=True, index=1)
    elif row:
      parts += draw_arrow(y - _GAP, "items", is_down=True, index=0)
      parts += draw_arrow(y - _GAP, "variables", is_down=False, index=1)
    for index, step in enumerate(names):
      x = _LEFT + index * (_BOX + 14)
      if index:
        parts.append(
          f'<path d="M{x - 13} {y + 15}h12" stroke="#555" '
          'marker-end="url(#arrow)"/>'
        )
      text = f"{step} {shares[process][step]:.0%}"
      parts.append(
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_ROW}" rx="4" '
        f'fill="{_COLOURS[step]}"/><text x="{x + _BOX / 2}" y="{y + 20}" '
        f'text-anchor="middle">{text}</text>'
      )
    y += _ROW + _GAP
  return y, parts


def order(lanes):
  """Returns the processes in the order in which the data reach them."""
  first = collections.defaultdict(lambda: len(_COLOURS))
  names = [*_COLOURS]
  for (process, _), slices in lanes.items():
    found = [names.index(step) for *_, step in slices]
    first[process] = min([first[process], *found])
  return sorted(first, key=first.get)


def draw_arrow(y, label, is_down, index):
  """Returns the SVG of an arrow between two rows, dashed for variables."""
  x = _LEFT + 30 + 80 * index
  path = (
    f"M{x} {y + 4}v{_GAP - 8}" if is_down else f"M{x} {y + _GAP - 4}v{8 - _GAP}"
  )
  dash = 'stroke-dasharray="4 3" ' if index else ""
  return [
    f'<path d="{path}" stroke="#555" {dash}marker-end="url(#arrow)"/>',
    f'<text x="{x + 6}" y="{y + 19}" fill="#555" font-size="11">{label}</text>',
  ]


def draw_timeline(lanes, y, from_s, seconds):
  """Returns the height and the SVG of a lane per process, and of an axis."""
  scale = (_WIDTH - _LEFT - _RIGHT) / seconds
  parts = []
  for process in order(lanes):
    slices = [
      x for (name, _), lane in lanes.items() if name == process for x in lane
    ]
    parts += [f'<text x="8" y="{y + 17}">{html.escape(process)}</text>']
    for start_s, end_s, step in slices:
      start_s, end_s = max(start_s - from_s, 0), min(end_s - from_s, seconds)
      if end_s > start_s:
        parts.append(
          f'<rect x="{_LEFT + start_s * scale:.1f}" y="{y}" '
          f'width="{(end_s - start_s) * scale:.1f}" height="{_ROW - 6}" '
          f'fill="{_COLOURS[step]}"/>'
        )
    y += _ROW
  for tick in range(6):
    x = _LEFT + tick * seconds / 5 * scale
    parts.append(
      f'<path d="M{x:.1f} {y}v5" stroke="#555"/><text x="{x:.1f}" '
      f'y="{y + 20}" text-anchor="middle">{tick * 200 * seconds:.0f} ms</text>'
    )
  return y + 30, parts


def main():
  """Reads the arguments, and writes the picture."""
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("trace")
  parser.add_argument("output", type=pathlib.Path)
  parser.add_argument("--from_s", type=float, default=1.0)
  parser.add_argument("--seconds", type=float, default=0.5)
  arguments = parser.parse_args()
  lanes, length_s = read(arguments.trace)
  y, flow = draw_flow(lanes, length_s)
  bottom, line = draw_timeline(lanes, y, arguments.from_s, arguments.seconds)
  arguments.output.write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom}" '
    'font-family="Helvetica, Arial, sans-serif" font-size="13">'
    '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" '
    'markerWidth="6" markerHeight="6" orient="auto">'
    '<path d="M0 0L10 5L0 10z" fill="#555"/></marker></defs>'
    f'<rect width="{_WIDTH}" height="{bottom}" fill="#fff"/>'
    + "\n".join([*flow, *line])
    + "</svg>\n"
  )


if __name__ == "__main__":
  main()
