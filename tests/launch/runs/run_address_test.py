"""Tests of the address file, which exists while a launcher serves."""

import os
import socket

import pytest

from slipway.launch.runs import run_address, run_folder


@pytest.fixture
def folder(tmp_path):
  return run_folder.RunFolder.create(tmp_path, "a-run", overwrite=False)


def test_the_file_exists_while_a_node_serves(folder):
  assert run_address.read(folder) is None
  with run_address.published(folder, "localhost:7"):
    where = run_address.read(folder)
    assert (where.address, where.pid) == ("localhost:7", os.getpid())
    assert where.host == socket.gethostname()
    assert where.is_local
  assert run_address.read(folder) is None
  assert not list(folder.path.glob("*control*"))


def test_the_file_is_removed_after_an_error(folder):
  with (
    pytest.raises(KeyError),
    run_address.published(folder, "localhost:7"),
  ):
    raise KeyError
  assert run_address.read(folder) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"address": "a"}', "\xff"])
def test_a_damaged_file(folder, text):
  path = run_address.path_in(folder)
  path.write_text(text, "latin-1")
  with pytest.raises(ValueError) as error:
    run_address.read(folder)
  assert repr(str(path)) in str(error.value)
  assert "\n" not in str(error.value)
