"""Snapshots: whole or not at all, the newest kept, and a writer killed."""

import logging
import os
import pathlib
import random
import select
import shutil
import subprocess
import sys

import pytest

from launch.runs import snapshots as snapshots_lib

ROOT = pathlib.Path(__file__).resolve().parents[3]
DEADLINE_S = 60.0

# Writes snapshots without a pause, and says which step it is about to write.
WRITER = """
import sys
from launch.runs import snapshots
from tests.launch.runs import snapshots_test
folder, step = sys.argv[1], int(sys.argv[2])
kept = snapshots.Snapshots(folder, keep=2)
while True:
  step += 1
  print(step, flush=True)
  with kept.writing(step) as path:
    snapshots_test.fill(path, step)
  if step % 5 == 0:
    kept.mark_best()
"""


def content(step):
  """Bytes of a length that differs from step to step."""
  return random.Random(step).randbytes(1 + 40_009 * (step % 7))


def fill(path, step):
  (path / "replay").mkdir()
  (path / "replay" / "items").write_bytes(content(step))
  (path / "step").write_text(str(step))


def write(snapshots, *steps):
  for step in steps:
    with snapshots.writing(step) as path:
      fill(path, step)


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def check(snapshot):
  assert (snapshot.path / "step").read_text() == str(snapshot.step)
  items = (snapshot.path / "replay" / "items").read_bytes()
  assert items == content(snapshot.step)


def test_an_empty_folder_has_none(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path / "a" / "b", keep=1)
  assert snapshots.newest() is None and snapshots.best() is None
  with pytest.raises(ValueError, match="no whole snapshot"):
    snapshots.mark_best()


def test_keep_none_is_refused(tmp_path):
  with pytest.raises(ValueError, match="keep is 0"):
    snapshots_lib.Snapshots(tmp_path, keep=0)


def test_the_newest_ones_and_the_best_are_kept(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=2)
  write(snapshots, 10, 20)
  snapshots.mark_best()
  write(snapshots, 30, 40, 50)
  assert names(tmp_path) == ["000002", "000004", "000005", "best"]
  newest, best = snapshots.newest(), snapshots.best()
  assert newest[1:] == (5, 50) and best[1:] == (2, 20)
  check(newest)
  check(best)
  snapshots.mark_best()
  write(snapshots, 60)
  assert names(tmp_path) == ["000005", "000006", "best"]
  assert snapshots.best()[1:] == (5, 50)


def test_one_of_the_same_or_an_earlier_step_is_newer(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=2)
  write(snapshots, 20, 20, 15)
  assert snapshots.newest()[1:] == (3, 15)


def test_another_process_finds_the_same(tmp_path):
  write(snapshots_lib.Snapshots(tmp_path, keep=2), 10, 20)
  again = snapshots_lib.Snapshots(tmp_path, keep=2)
  assert again.newest()[1:] == (2, 20)
  write(again, 30)
  assert again.newest()[1:] == (3, 30)


def test_nothing_is_left_of_one_that_failed(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=1)
  write(snapshots, 10)
  with pytest.raises(ZeroDivisionError), snapshots.writing(20) as path:
    fill(path, 20)
    _ = 1 / 0
  assert names(tmp_path) == ["000001"]
  check(snapshots.newest())


def test_two_writers_are_refused(tmp_path):
  first = snapshots_lib.Snapshots(tmp_path, keep=1)
  second = snapshots_lib.Snapshots(tmp_path, keep=1)
  with first.writing(10) as path:
    fill(path, 10)
    with pytest.raises(RuntimeError, match="written by somebody else"):
      write(second, 11)
  write(second, 20)
  assert first.newest()[1:] == (2, 20)


def truncate(path):
  os.truncate(path, path.stat().st_size - 1)


def flip(path):
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(data)


@pytest.mark.parametrize("damage", [pathlib.Path.unlink, truncate, flip])
@pytest.mark.parametrize("name", ["replay/items", "step", "manifest.json"])
def test_a_damaged_one_is_never_used(tmp_path, caplog, damage, name):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=3)
  write(snapshots, 1, 2)
  damage(tmp_path / "000002" / name)
  with caplog.at_level(logging.WARNING):
    assert snapshots.newest()[1:] == (1, 1)
  (message,) = [record.getMessage() for record in caplog.records]
  assert "000002" in message and name in message and "\n" not in message
  write(snapshots, 3)
  assert snapshots.newest()[1:] == (3, 3)


def test_a_damaged_one_takes_no_place_of_a_whole_one(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=2)
  write(snapshots, 1, 2)
  truncate(tmp_path / "000002" / "step")
  write(snapshots, 3)
  truncate(tmp_path / "000003" / "step")
  assert snapshots.newest()[1:] == (1, 1)
  write(snapshots, 4, 5)
  assert names(tmp_path) == ["000004", "000005"]


def test_a_damaged_best_is_none(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=1)
  write(snapshots, 1)
  snapshots.mark_best()
  write(snapshots, 2)
  flip(tmp_path / "000001" / "step")
  assert snapshots.best() is None


def test_of_a_large_file_the_size_is_checked(tmp_path):
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=1)
  with snapshots.writing(1) as path, (path / "large").open("wb") as file:
    file.truncate((1 << 26) + 1)  # a hole, which takes no disk
  assert snapshots.newest()[1:] == (1, 1)
  truncate(tmp_path / "000001" / "large")
  assert snapshots.newest() is None


def kill_while_writing(folder, step, lines, delay_s):
  """Runs a writer and kills it; returns the step that it was about to write.

  Args:
    folder: of the snapshots.
    step: after which it goes on.
    lines: it is killed some time after it has said so many steps.
    delay_s: that time.
  """
  writer = subprocess.Popen(
    [sys.executable, "-c", WRITER, str(folder), str(step)],
    cwd=ROOT,
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    assert writer.stdout is not None
    for _ in range(lines):
      ready, _, _ = select.select([writer.stdout], [], [], DEADLINE_S)
      assert ready, "the writer says nothing"
      assert writer.stdout.readline(), "the writer has failed"
    assert writer.poll() is None
    select.select([], [], [], delay_s)  # the point is random, not awaited
  finally:
    writer.kill()
    writer.wait()
  said = writer.stdout.read().splitlines()
  return int(said[-1]) if said else step + lines


def test_a_writer_killed_at_any_point_leaves_a_whole_one(tmp_path):
  rng = random.Random(8)
  snapshots = snapshots_lib.Snapshots(tmp_path, keep=2)
  step, hidden = 0, 0
  for _ in range(12):
    lines, delay_s = rng.randint(1, 12), rng.uniform(0.0, 0.02)
    writing = kill_while_writing(tmp_path, step, lines, delay_s)
    hidden += any(name.startswith(".") for name in names(tmp_path))
    newest = snapshots.newest()
    if newest is None:
      assert writing == 1
      continue
    check(newest)
    # The one that it was about to write, or the one before.
    assert writing - 1 <= newest.step <= writing
    if (best := snapshots.best()) is not None:
      check(best)
      assert best.step % 5 == 0
    step = newest.step
  assert hidden, "no kill met a writer half-way"
  write(snapshots, step + 1)
  assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_what_is_in_use_stays_until_the_next(tmp_path):
  in_use = {1, 2}
  snapshots = snapshots_lib.Snapshots(tmp_path, 1, lambda: in_use)
  assert snapshots.written is None
  write(snapshots, 10, 20, 30)
  assert snapshots.written == snapshots.newest()
  assert names(tmp_path) == ["000001", "000002", "000003"]
  in_use.remove(1)
  write(snapshots, 40)
  assert names(tmp_path) == ["000002", "000004"]


def copy_of(snapshot):
  def fill(path):
    shutil.copytree(snapshot.path, path, dirs_exist_ok=True)

  return fill


def test_one_from_elsewhere_is_taken_in_whole(tmp_path):
  elsewhere = snapshots_lib.Snapshots(tmp_path / "elsewhere", keep=9)
  write(elsewhere, 10, 20, 30)
  snapshots = snapshots_lib.Snapshots(tmp_path / "here", keep=9)
  check(snapshots.receive(3, copy_of(elsewhere.newest())))
  assert snapshots.newest()[1:] == (3, 30)
  truncate(tmp_path / "elsewhere" / "000002" / "step")
  with pytest.raises(ValueError, match="step has 1 bytes of 2"):
    snapshots.receive(
      2, copy_of(snapshots_lib.Snapshot(tmp_path / "elsewhere/000002", 2, 20))
    )
  assert names(tmp_path / "here") == ["000003"]
  write(snapshots, 40)
  assert snapshots.newest()[1:] == (4, 40)


def test_a_damaged_one_is_replaced_and_a_whole_one_is_not(tmp_path):
  elsewhere = snapshots_lib.Snapshots(tmp_path / "elsewhere", keep=9)
  snapshots = snapshots_lib.Snapshots(tmp_path / "here", keep=9)
  write(elsewhere, 20)
  write(snapshots, 10)
  other = copy_of(elsewhere.newest())
  assert snapshots.receive(1, other)[1:] == (1, 10)
  truncate(tmp_path / "here" / "000001" / "step")
  check(snapshots.receive(1, other))
  assert snapshots.newest()[1:] == (1, 20)
