"""Partial results: the rows of an interrupted benchmark are kept."""

import pytest

from benchmarks import machine, partial_results


class Measurement:
  """A measurement that counts its calls, and returns the count."""

  def __init__(self):
    self.calls = 0

  def __call__(self):
    self.calls += 1
    return {"value": self.calls, "note": None}


@pytest.fixture
def path(tmp_path, monkeypatch):
  monkeypatch.setattr(machine, "commit", lambda: "abcdef")
  return tmp_path / "results" / "rows.partial.jsonl"


def read(path):
  """Returns the partial results in a file."""
  return partial_results.PartialResults(path.parent, "rows")


def test_rows_are_measured_once(path):
  measurement = Measurement()
  with pytest.raises(KeyboardInterrupt), read(path) as first:
    row = first.measure("a", measurement)
    assert first.measure("a", measurement) == row
    raise KeyboardInterrupt
  with read(path) as again:
    assert again.measure("a", measurement) == row
    assert again.measure("b", measurement) == {"value": 2, "note": None}
  assert not path.exists()
  assert read(path).measure("a", measurement)["value"] == 3


def test_failures_are_measured_again(path):
  measurement = Measurement()
  for value in (1, 2):
    rows = read(path)
    row = rows.measure("a", measurement, lambda row: row["value"] > 1)
    assert row["value"] == value
  assert read(path).measure("a", measurement)["value"] == 2


def test_a_line_that_was_cut_off_is_measured_again(path):
  measurement = Measurement()
  first = read(path)
  for name in "abc":
    first.measure(name, measurement)
  path.write_text(path.read_text()[:-20])
  second = read(path)
  values = [second.measure(name, measurement)["value"] for name in "abc"]
  assert values == [1, 2, 4]
  third = read(path)
  assert [third.measure(x, measurement)["value"] for x in "abc"] == values


@pytest.mark.parametrize(
  ("before", "now"),
  [
    ("abcdef", "fedcba"),
    ("abcdef with changes", "abcdef with changes"),
    (machine.UNKNOWN, machine.UNKNOWN),
  ],
)
def test_rows_of_other_code_are_measured_again(path, monkeypatch, before, now):
  measurement = Measurement()
  monkeypatch.setattr(machine, "commit", lambda: before)
  read(path).measure("a", measurement)
  monkeypatch.setattr(machine, "commit", lambda: now)
  assert read(path).measure("a", measurement)["value"] == 2
