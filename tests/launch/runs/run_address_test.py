"""Run address: a file that is there while a control node serves."""

import os
import socket
import subprocess
import sys

import pytest

from slipway.launch.runs import outbox, run_address, run_folder


@pytest.fixture
def folder(tmp_path):
  return run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)


def test_it_is_there_while_a_node_serves(folder):
  assert run_address.read(folder) is None
  with run_address.published(folder, "localhost:7", outbox.Outbox()):
    where = run_address.read(folder)
    assert where == run_address.RunAddress(
      "localhost:7", os.getpid(), socket.gethostname()
    )
    assert not where.is_down
  assert run_address.read(folder) is None
  assert not list(folder.path.glob("*control*"))


def test_it_goes_with_an_error_too(folder):
  with (
    pytest.raises(KeyError),
    run_address.published(folder, "localhost:7", outbox.Outbox()),
  ):
    raise KeyError
  assert run_address.read(folder) is None


def test_a_successors_file_stays(folder):
  with run_address.published(folder, "localhost:7", outbox.Outbox()):
    successor = run_address.published(folder, "localhost:8", outbox.Outbox())
    successor.__enter__()
  assert run_address.read(folder).address == "localhost:8"
  successor.__exit__(None, None, None)
  assert run_address.read(folder) is None


def test_a_process_that_is_gone():
  process = subprocess.Popen([sys.executable, "-c", ""])
  process.wait(60)
  here = socket.gethostname()
  address = run_address.RunAddress("localhost:7", process.pid, here)
  assert address.is_down
  assert not run_address.RunAddress("h:7", process.pid, f"not-{here}").is_down
  assert not run_address.RunAddress("localhost:7", 1, here).is_down


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": "a"}', "\xff"])
def test_a_file_that_is_none(folder, text):
  path = run_address.path_in(folder)
  path.write_text(text, "latin-1")
  with pytest.raises(ValueError) as error:
    run_address.read(folder)
  assert repr(str(path)) in str(error.value)
  assert "\n" not in str(error.value)
