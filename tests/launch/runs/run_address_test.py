"""Tests of the address file, which exists while a launcher serves."""

import os
import shutil
import socket
import subprocess
import time

import msgspec
import pytest

from slipway.launch.runs import outbox, run_address, run_folder


@pytest.fixture
def folder(tmp_path):
  return run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)


def test_the_file_exists_while_a_node_serves(folder):
  assert run_address.read(folder) is None
  with run_address.published(folder, "localhost:7", outbox.Outbox()):
    where = run_address.read(folder)
    assert (where.address, where.pid) == ("localhost:7", os.getpid())
    assert where.host == socket.gethostname()
    assert where.is_local
    assert not where.is_down
  assert run_address.read(folder) is None
  assert not list(folder.path.glob("*control*"))


def test_a_copy_of_an_active_run_is_not_active(folder, tmp_path):
  with run_address.published(folder, "localhost:7", outbox.Outbox()):
    copy = run_folder.RunFolder(tmp_path / "copy")
    shutil.copytree(folder.path, copy.path)
    assert run_address.path_in(copy).exists()
    assert run_address.read(copy) is None
    renamed = run_folder.RunFolder(tmp_path / "renamed")
    folder.path.rename(renamed.path)
    assert run_address.read(renamed).address == "localhost:7"
    renamed.path.rename(folder.path)


def test_the_file_is_removed_after_an_error(folder):
  with (
    pytest.raises(KeyError),
    run_address.published(folder, "localhost:7", outbox.Outbox()),
  ):
    raise KeyError
  assert run_address.read(folder) is None


def test_the_file_of_a_restarted_node_is_kept(folder):
  with run_address.published(folder, "localhost:7", outbox.Outbox()):
    successor = run_address.published(folder, "localhost:8", outbox.Outbox())
    successor.__enter__()
  assert run_address.read(folder).address == "localhost:8"
  successor.__exit__(None, None, None)
  assert run_address.read(folder) is None


def test_the_file_is_renewed_while_a_node_serves(folder, monkeypatch):
  monkeypatch.setattr(run_address, "_RENEWAL_PERIOD_S", 0.01)
  assert run_address.read_renewal_ns(folder) == 0
  with run_address.published(folder, "localhost:7", outbox.Outbox()):
    first = run_address.read_renewal_ns(folder)
    assert first
    while run_address.read_renewal_ns(folder) == first:
      time.sleep(0.01)
  assert run_address.read_renewal_ns(folder) == 0


def test_a_process_that_is_down():
  with subprocess.Popen(["sleep", "600"]) as process:
    address = run_address.RunAddress.from_process("localhost:7", process.pid)
    assert not address.is_down
    process.kill()
    while not address.is_down:  # true once the process is a zombie
      time.sleep(0.01)
  assert address.is_down
  with pytest.raises(ProcessLookupError, match=str(process.pid)):
    run_address.RunAddress.from_process("localhost:7", process.pid)


def test_another_process_with_the_same_pid():
  address = run_address.RunAddress.from_process("localhost:7", os.getpid())
  earlier = msgspec.structs.replace(address, started=address.started - 1)
  assert earlier.is_down
  elsewhere = msgspec.structs.replace(earlier, pid_space="another boot")
  assert not elsewhere.is_local
  assert not elsewhere.is_down


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": "a"}', "\xff"])
def test_a_damaged_file(folder, text):
  path = run_address.path_in(folder)
  path.write_text(text, "latin-1")
  with pytest.raises(ValueError) as error:
    run_address.read(folder)
  assert repr(str(path)) in str(error.value)
  assert "\n" not in str(error.value)
