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
