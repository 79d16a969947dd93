"""Reports: medians and ratios of rows, and the files of a report."""

import csv

import pytest

from benchmarks import goal, machine, report

ROWS = [
  {"repetition": 0, "side": "a", "speed": 10.0},
  {"repetition": 0, "side": "b", "speed": 5.0},
  {"repetition": 1, "side": "a", "speed": 8.0},
  {"repetition": 1, "side": "b", "speed": 1.0},
  {"repetition": 2, "side": "a", "speed": 30.0},
  {"repetition": 2, "side": "b", "speed": 10.0},
]


def test_median_of_the_selected_rows():
  assert report.median(ROWS, "speed", side="a") == 10.0
  assert report.median(ROWS, "speed", side="b") == 5.0


def test_ratio_is_within_repetitions():
  # The median of 2, 8 and 3 is 3; the ratio of the medians would be 2.
  found = report.ratio(ROWS, "speed", of={"side": "a"}, to={"side": "b"})
  assert found == 3.0


def test_a_selection_without_rows_is_an_error():
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
