"""Scalars, which are read from the event files that runs write."""

import struct

import pytest

from slipway.launch.dashboard import scalars
from slipway.launch.runs import events


def write(writer, steps, name="learner/loss"):
  for step in steps:
    writer.add({"run/wall_s": step / 10, name: float(step)}, step)


@pytest.fixture
def reader(tmp_path):
  return scalars.Scalars(tmp_path)


def test_only_new_rows_are_returned(reader, tmp_path):
  assert reader.read_since(0, 0)["columns"] == {}
  writer = events.Events(tmp_path)
  writer.add_config({"seed": 1})
  write(writer, [1, 2])
  writer.add({"evaluation/mean_return": 3.0}, 2)
  found = reader.read_since(0, 0)
  assert (found["first"], found["count"]) == (0, 2)
  assert found["columns"]["learner/loss"] == [1.0, 2.0]
  write(writer, [3], "learner/other")
  more = reader.read_since(found["generation"], found["count"])
  assert (more["first"], more["count"]) == (2, 3)
  assert more["columns"]["learner/other"] == [3.0]
  assert "learner/loss" not in more["columns"]
  whole = reader.read_since(0, 0)
  assert whole["columns"]["learner/loss"] == [1.0, 2.0, None]


def test_an_unfinished_record_is_read_once_it_is_whole(reader, tmp_path):
  writer = events.Events(tmp_path)
  write(writer, [1, 2])
  content = writer.path.read_bytes()
  for size in range(len(content)):
    writer.path.write_bytes(content[:size])
    assert reader.read_since(0, 0)["count"] < 2
  writer.path.write_bytes(content)
  assert reader.read_since(0, 0)["columns"]["learner/loss"] == [1.0, 2.0]


def test_a_resume_removes_what_came_after_its_snapshot(reader, tmp_path):
  write(events.Events(tmp_path), [100, 200, 300])
  old = reader.read_since(0, 0)
  write(events.Events(tmp_path, step=200), [250])
  found = reader.read_since(old["generation"], old["count"])
  assert found["first"] == 0
  assert found["columns"]["learner/loss"] == [100.0, 200.0, 250.0]


def test_a_run_that_replaces_another_is_read_from_its_start(reader, tmp_path):
  writer = events.Events(tmp_path)
  write(writer, [1, 2, 3])
  old = reader.read_since(0, 0)
  writer.path.unlink()
  other = events.Events(tmp_path)
  write(other, [7])
  other.path.rename(tmp_path / "events.out.tfevents.0000000001.a-host.7")
  found = reader.read_since(old["generation"], old["count"])
  assert found["first"] == 0
  assert found["columns"]["learner/loss"] == [7.0]


def test_a_long_run_has_a_bounded_number_of_rows(reader, tmp_path):
  writer = events.Events(tmp_path)
  write(writer, range(5_000))
  found = reader.read_since(0, 0)
  assert 1_000 <= found["count"] < 2_000
  losses = found["columns"]["learner/loss"]
  assert losses == sorted(losses)
  assert losses[-1] == 4_999.0


@pytest.mark.parametrize("head", [b"", struct.pack("<QI", 50, 0)])
def test_a_damaged_file_ends_at_the_damage(reader, tmp_path, head):
  writer = events.Events(tmp_path)
  write(writer, [1])
  with writer.path.open("ab") as file:
    file.write(head + b"\xff" * 100)
  assert reader.read_since(0, 0)["count"] == 1
