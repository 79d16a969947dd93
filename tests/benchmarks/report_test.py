"""Reports: medians and ratios of rows, and the files of a report."""

import csv

import pytest

from benchmarks import goal, machine, report

ROWS = [
  {"repetition": repetition, "side": side, "speed": speed}
  for repetition, speeds in enumerate([(10.0, 5.0), (8.0, 1.0), (30.0, 10.0)])
  for side, speed in zip("ab", speeds, strict=True)
]


def test_medians_and_ratios_of_the_selected_rows():
  assert report.median(ROWS, "speed", side="a") == 10.0
  # The median of 2, 8 and 3; the ratio of the medians would be 2.
  assert report.ratio(ROWS, "speed", of={"side": "a"}, to={"side": "b"}) == 3.0
  with pytest.raises(ValueError, match=r"no row has .*'side': 'c'"):
    report.median(ROWS, "speed", side="c")


def test_files_have_the_machine_and_every_row(tmp_path):
  made = report.Report(
    name="speed",
    title="Speed",
    method="As it says.",
    raw=ROWS,
    medians=[{"side": "a", "speed": 1234.5}],
    goals=[goal.verdict("3 times, goal 2", True)],
  )
  head = machine.describe()
  made.write(tmp_path / "new", head)
  page = (tmp_path / "new" / "speed.md").read_text()
  assert "| a | 1,234 |" in page
  assert "- 3 times, goal 2: reached." in page
  for name in ("commit", "processor", "memory", "date", "dm-reverb"):
    assert f"| {name} | {head[name]} |" in page
  lines = (tmp_path / "new" / "speed.csv").read_text().splitlines()
  rows = list(csv.DictReader(lines[len(head) :]))
  assert [float(row["speed"]) for row in rows] == [r["speed"] for r in ROWS]
