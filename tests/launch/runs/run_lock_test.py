"""Tests of the run lock: one launcher holds it, until that launcher ends."""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from slipway.launch.runs import run_folder, run_lock

# A program that holds a run's lock until it is killed.
_HOLDER = """
import sys
from slipway.launch.runs import run_folder, run_lock
with run_lock.held(run_folder.RunFolder(sys.argv[1])):
  print("held", flush=True)
  sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
  return run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)


@pytest.fixture
def holder(folder):
  """Yields another process that holds the lock."""
  process = subprocess.Popen(
    [sys.executable, "-c", _HOLDER, str(folder.path)],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
  )
  assert process.stdout is not None
  assert process.stdout.readline() == "held\n"
  yield process
  process.kill()
  process.communicate()


def test_another_process_is_named_in_one_line(folder, holder):
  with pytest.raises(ValueError) as caught, run_lock.held(folder):
    pass
  line = str(caught.value)
  assert "\n" not in line
  assert str(folder.path) in line
  assert f"still active, process {holder.pid} of " in line


def test_the_lock_is_freed_with_its_process(folder, holder):
  holder.kill()
  holder.wait()
  with run_lock.held(folder):
    pass


def test_a_wait_ends_with_the_process_or_in_one_line(folder, holder):
  with pytest.raises(ValueError, match=f"process {holder.pid} of "):
    run_lock.wait_until_free(folder, timeout_s=0.0)
  holder.kill()
  run_lock.wait_until_free(folder, timeout_s=30.0)


def test_the_lock_can_be_held_again(folder):
  for _ in range(2):
    assert not run_lock.is_held(folder)
    with (
      run_lock.held(folder),
      pytest.raises(ValueError, match="still active"),
      run_lock.held(folder),
    ):
      pass


def test_a_look_at_the_lock_hinders_no_launcher(folder):
  with run_lock.held(folder):
    assert run_lock.is_held(folder)
  ended = threading.Event()

  def look():
    while not ended.is_set():
      run_lock.is_held(folder)

  thread = threading.Thread(target=look)
  thread.start()
  try:
    for _ in range(20):
      with run_lock.held(folder):
        pass
  finally:
    ended.set()
    thread.join()


def test_the_lock_of_another_machine_is_waited_for(folder, holder, monkeypatch):
  """The server of the files releases that of a machine that was lost."""
  (folder.path / run_folder.LOCK).write_text("7 of elsewhere")
  timer = threading.Timer(1.5, holder.kill)
  timer.start()
  with run_lock.held(folder):
    assert str(os.getpid()) in (folder.path / run_folder.LOCK).read_text()


def test_a_run_that_another_machine_trains(folder, holder, monkeypatch):
  monkeypatch.setattr(run_lock, "_LEASE_S", 0.2)
  (folder.path / run_folder.LOCK).write_text("7 of elsewhere")
  with (
    pytest.raises(ValueError, match="still active, process 7 of elsewhere"),
    run_lock.held(folder),
  ):
    pass


def test_child_processes_do_not_hold_the_lock(folder):
  with run_lock.held(folder):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
  try:
    with run_lock.held(folder):
      pass
  finally:
    child.kill()
    child.wait()


def test_a_folder_that_is_replaced_meanwhile_is_not_locked(folder, monkeypatch):
  def replace(descriptor, operation):
    """Replaces the folder between the opening of the old one and its lock."""
    folder.path.rename(folder.path.with_name("old"))
    folder.path.mkdir()

  monkeypatch.setattr(fcntl, "flock", replace)
  with pytest.raises(ValueError, match="replaced"), run_lock.held(folder):
    pass
