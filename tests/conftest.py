"""All tests: temporary files are made in pytest's folder, which pytest removes.

Libraries leave files behind when their process is killed, and Reverb's servers
leave a folder each.
"""

import os
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory):
  """Makes pytest's folder that of all temporary files, also of subprocesses."""
  folder = str(tmp_path_factory.mktemp("t"))
  os.environ["TMPDIR"] = tempfile.tempdir = folder
