"""Metrics, which are read from the event files that runs write."""

import struct

import pytest

from slipway.launch.dashboard import sources
from slipway.launch.runs import events


def write(writer, steps, name="learner/loss"):
  for step in steps:
    writer.add({"run/wall_s": step / 10, name: float(step)}, step)


@pytest.fixture
def events_folder(tmp_path):
  (tmp_path / "events").mkdir()
  return tmp_path / "events"


@pytest.fixture
def source(tmp_path):
  return sources.Source(tmp_path)


def test_new_rows_are_appended(source, events_folder):
  assert source.read_metrics() == {}
  writer = events.Events(events_folder)
  writer.add_config({"seed": 1})
  write(writer, [1, 2])
  writer.add({"evaluation/mean_return": 3.0}, 2)
  assert source.read_metrics()["learner/loss"] == [1.0, 2.0]
  write(writer, [3], "learner/other")
  found = source.read_metrics()
  assert found["learner/loss"] == [1.0, 2.0, None]
  assert found["learner/other"] == [None, None, 3.0]


def test_an_unfinished_record_is_read_once_it_is_whole(source, events_folder):
  writer = events.Events(events_folder)
  write(writer, [1, 2])
  content = writer.path.read_bytes()
  for size in range(len(content)):
    writer.path.write_bytes(content[:size])
    assert len(source.read_metrics().get("learner/loss", [])) < 2
  writer.path.write_bytes(content)
  assert source.read_metrics()["learner/loss"] == [1.0, 2.0]


def test_a_resume_removes_what_came_after_its_snapshot(source, events_folder):
  write(events.Events(events_folder), [100, 200, 300])
  source.read_metrics()
  write(events.Events(events_folder, step=200), [250])
  assert source.read_metrics()["learner/loss"] == [100.0, 200.0, 250.0]


def test_a_run_that_replaces_another_is_read_anew(source, events_folder):
  writer = events.Events(events_folder)
  write(writer, [1, 2, 3])
  source.read_metrics()
  writer.path.unlink()
  other = events.Events(events_folder)
  write(other, [7])
  name = "events.out.tfevents.0000000001.a-host.7"
  other.path.rename(events_folder / name)
  assert source.read_metrics()["learner/loss"] == [7.0]


def test_a_long_run_has_a_bounded_number_of_rows(source, events_folder):
  write(events.Events(events_folder), range(5_000))
  losses = source.read_metrics()["learner/loss"]
  assert 300 <= len(losses) < 600
  assert losses == sorted(losses)
  assert losses[-1] == 4_999.0


@pytest.mark.parametrize("head", [b"", struct.pack("<QI", 50, 0)])
def test_a_damaged_file_ends_at_the_damage(source, events_folder, head):
  writer = events.Events(events_folder)
  write(writer, [1])
  with writer.path.open("ab") as file:
    file.write(head + b"\xff" * 100)
  assert source.read_metrics()["learner/loss"] == [1.0]
